// Package rack runs a whole virtual rack with the product on it: machines, network
// and BMCs (ops/virtual/lab), central and bus in this process (ops/stack), rackds of one
// conductor group as processes inside the rack's network, which may be killed.
//
// It may import all of the project. The demo, `ironyard lab` and the end-to-end
// tests are its callers; it holds what they have in common and prints nothing.
package rack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/stack"
	"github.com/ironyard/ironyard/ops/virtual/lab"
	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/ops/virtual/netns"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// Options of a rack.
type Options struct {
	Name string // of the lab, and of its network namespace
	Dir  string // everything the rack keeps
	// Listen is the address of the API on this host.
	Listen string
	// Machines of the lab; none: one UEFI and one BIOS machine.
	Machines []machine.Config
	// Protocols are the BMCs of protocols other than Redfish that a machine may have, and
	// FurtherBMCs those that machines of a new lab do have: protocols by machine.
	Protocols   map[string]lab.BMC
	FurtherBMCs map[string][]string
	// Rackd is the program; Kernel and Ramdisk what it boots machines with.
	Rackd, Kernel, Ramdisk string
	// RescueRamdisk is what machines are rescued with; empty: none is.
	RescueRamdisk string
	// Rackds is how many there are, each on an address of its own; 0: one.
	Rackds int
	// RackdArgs are added to each rackd's command line.
	RackdArgs []string
	// Images is a folder that is served to the rack over HTTP.
	Images string
	// APIInside serves the API to the rack's machines too. It asks for no credentials, so only
	// a test whose ramdisks call central sets it.
	APIInside bool
	// Subnet of the rack; zero: 10.77.0.0/24. The rack has .1.
	Bridge netip.Prefix
	Log    *slog.Logger
}

// Ports inside the rack's network.
const (
	apiPort   = "6385"
	busPort   = "4222"
	imagePort = "8089"
)

// Rack is a running rack. Safe for concurrent use.
type Rack struct {
	Stack   *stack.Stack
	Lab     *lab.Lab
	Serving *lab.Serving
	// Rackds run when Run calls its caller.
	Rackds []*Rackd
	// Operator speaks to the API.
	Operator *operator.Operator

	opts Options
	ns   *netns.Namespace
}

// Run brings the rack up, calls use once everything serves, and takes the services
// down again when use returns or ctx ends. The machines run on until Down.
func Run(ctx context.Context, o Options, use func(ctx context.Context, r *Rack) error) error {
	if !o.Bridge.IsValid() {
		o.Bridge = netip.MustParsePrefix("10.77.0.1/24")
	}
	if o.Rackds = max(o.Rackds, 1); o.Rackds > MaxRackds {
		return fmt.Errorf("a rack of %d rackds: at most %d are possible", o.Rackds, MaxRackds)
	}
	r := &Rack{opts: o}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	if err := r.describe(); err != nil {
		return err
	}
	if err := r.Lab.Up(ctx); err != nil {
		return fmt.Errorf("bring the lab up: %w", err)
	}
	var err error
	if r.ns, err = r.Lab.Namespace(); err != nil {
		return err
	}
	for i := range o.Rackds {
		d := newRackd(r, i, o.Rackds)
		if err := r.ns.AddAddress(ctx, netip.PrefixFrom(d.Address, r.Lab.Bridge.Bits())); err != nil {
			return fmt.Errorf("address of %s: %w", d.Name, err)
		}
		r.Rackds = append(r.Rackds, d)
	}
	return r.serve(ctx, use)
}

// describe makes the lab's description, or takes the one that is there. A lab that is
// there and has other machines than are asked for is an error: its disks are made.
func (r *Rack) describe() error {
	o := r.opts
	options := []lab.Option{lab.WithBridge(o.Bridge)}
	if len(o.Machines) > 0 {
		options = append(options, lab.WithMachines(o.Machines...))
	}
	for name, protocols := range o.FurtherBMCs {
		for _, p := range protocols {
			options = append(options, lab.WithBMC(name, p))
		}
	}
	wanted, err := lab.New(o.Name, r.labDir(), options...)
	if err != nil {
		return err
	}
	r.Lab, err = lab.Load(r.labDir())
	switch {
	case errors.Is(err, os.ErrNotExist):
		r.Lab = wanted
		return nil
	case err != nil || len(o.Machines) == 0 && len(o.FurtherBMCs) == 0:
		return err
	}
	if err := r.Lab.Differs(wanted); err != nil {
		return fmt.Errorf("%w; take the lab in %s down first", err, r.labDir())
	}
	return nil
}

func (r *Rack) labDir() string { return filepath.Join(r.opts.Dir, "lab") }

// Address is the rack's own address inside its network.
func (r *Rack) Address() netip.Addr { return r.Lab.Bridge.Addr() }

func (r *Rack) serve(ctx context.Context, use func(ctx context.Context, r *Rack) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	bmcs := make(chan struct{})
	g.Go(func() error {
		return r.Lab.Serve(ctx, r.opts.Log, func(s *lab.Serving) { r.Serving = s; close(bmcs) }, lab.ByProtocol(r.opts.Protocols))
	})
	up := make(chan struct{})
	g.Go(func() error {
		return stack.Run(ctx, stack.Options{Dir: filepath.Join(r.opts.Dir, "central"), Listen: r.opts.Listen, BusListen: "127.0.0.1:0", Log: r.opts.Log},
			func(s *stack.Stack) { r.Stack = s; close(up) })
	})
	g.Go(func() error {
		for _, c := range []chan struct{}{bmcs, up} {
			select {
			case <-c:
			case <-ctx.Done():
				return nil // another part says why
			}
		}
		defer cancel()
		if err := r.connect(ctx, g); err != nil {
			return err
		}
		for _, d := range r.Rackds {
			defer d.Stop()
			if err := d.Start(ctx); err != nil {
				return err
			}
		}
		return use(ctx, r)
	})
	return g.Wait()
}

// connect makes bus and images reachable inside the rack's network, and the API where a test
// asks for it: a rack's machines run what others wrote.
func (r *Rack) connect(ctx context.Context, g *errgroup.Group) (err error) {
	if r.Operator, err = operator.New(r.Stack.Endpoint); err != nil {
		return err
	}
	inside := map[string]string{busPort: r.Stack.BusAddress}
	if r.opts.APIInside {
		inside[apiPort] = strings.TrimPrefix(r.Stack.Endpoint, "http://")
	}
	for port, to := range inside {
		in, err := r.ns.Listen("tcp", net.JoinHostPort(r.Address().String(), port))
		if err != nil {
			return fmt.Errorf("listen inside the rack for %s: %w", to, err)
		}
		g.Go(func() error {
			return forward(ctx, in, func(ctx context.Context) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "tcp", to)
			})
		})
	}
	imagesIn, err := r.ns.Listen("tcp", net.JoinHostPort(r.Address().String(), imagePort))
	if err != nil {
		return fmt.Errorf("listen for images inside the rack: %w", err)
	}
	g.Go(func() error {
		srv := &http.Server{Handler: http.FileServer(http.Dir(r.opts.Images)), ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
		stop := context.AfterFunc(ctx, func() { srv.Close() })
		defer stop()
		if err := srv.Serve(imagesIn); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return nil
}

// APIURL is the API's base URL inside the rack's network, where Options.APIInside has it served.
func (r *Rack) APIURL() string { return "http://" + net.JoinHostPort(r.Address().String(), apiPort) }

// ImageURL is where the rack finds a file of Options.Images.
func (r *Rack) ImageURL(name string) string {
	return "http://" + net.JoinHostPort(r.Address().String(), imagePort) + "/" + name
}

// Machine returns a machine of the lab.
func (r *Rack) Machine(name string) (lab.Machine, error) {
	for _, m := range r.Lab.Machines {
		if m.Name == name {
			return m, nil
		}
	}
	return lab.Machine{}, fmt.Errorf("the rack has no machine %q", name)
}

// Rackd returns the rackd of that name, nil for none.
func (r *Rack) Rackd(name string) *Rackd {
	for _, d := range r.Rackds {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// BMC returns a machine's BMC, to inject faults and to read its journal.
func (r *Rack) BMC(name string) *vbmc.BMC { return r.Serving.BMCs[name] }

// Serial reads a machine's console from an offset of its log.
func (r *Rack) Serial(name string, offset int64) (*machine.SerialLog, error) {
	m, err := r.Machine(name)
	if err != nil {
		return nil, err
	}
	return machine.OpenSerial(m.Dir, offset), nil
}

// Enrolment describes a machine of the lab as an operator enrols it. The disks of
// the lab are smaller than what is usual, so the least size is lowered. Its agent inspects
// it: its BMC knows nothing of hardware.
func (r *Rack) Enrolment(name string) (operator.Machine, error) {
	m, err := r.Machine(name)
	if err != nil {
		return operator.Machine{}, err
	}
	properties := map[string]any{"capabilities": "boot_mode:" + string(m.Firmware)}
	if m.Arch != "" {
		properties["cpu_arch"] = string(m.Arch)
	}
	return operator.Machine{Name: name, Driver: "redfish", MACs: []string{m.MAC}, Interfaces: map[string]string{"inspect": "agent"},
		DriverInfo: map[string]any{"redfish_address": m.BMCURL(), "redfish_username": m.BMCUser, "redfish_password": m.BMCPassword,
			"redfish_verify_ca": false, "ironyard_min_disk_bytes": 16 << 20},
		Properties: properties,
	}, nil
}

// Down turns the machines off and removes the lab and its network.
func Down(ctx context.Context, dir string) error {
	l, err := lab.Load(filepath.Join(dir, "lab"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.Down(ctx)
}
