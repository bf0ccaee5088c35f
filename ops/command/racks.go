package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/demo"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/rack"
	"github.com/ironyard/ironyard/ops/virtual/ipmisim"
	"github.com/ironyard/ironyard/ops/virtual/lab"
	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/ops/virtual/testimage"
)

// rackFlags are common to the commands that run a virtual rack.
type rackFlags struct {
	Cache  string `help:"Folder for downloads, ramdisk and image." default:".cache" type:"path"`
	Dir    string `help:"Folder of the rack. Default: in the cache." type:"path"`
	Listen string `help:"Address of the API on this host." default:"127.0.0.1:6385"`
}

func (f rackFlags) dir(name string) string {
	if f.Dir != "" {
		return f.Dir
	}
	return filepath.Join(f.Cache, name)
}

// prepare builds what a rack needs, side by side, and returns its options.
func (f rackFlags) prepare(ctx context.Context, name string, log *slog.Logger) (rack.Options, testimage.Images, error) {
	o := rack.Options{Name: name, Dir: f.dir(name), Listen: f.Listen, Images: filepath.Join(f.Cache, "image"), Log: log}
	var images testimage.Images
	var err error
	if o.Rackd, err = beside("rackd"); err != nil {
		return o, images, err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		r, err := buildRamdisk(ctx, debkernel.Cloud, filepath.Join(f.Cache, "kernel"), filepath.Join(f.Cache, "ramdisk"))
		o.Kernel, o.Ramdisk = r.Kernel, r.Initramfs
		return err
	})
	g.Go(func() (err error) {
		images, err = testimage.Build(ctx, testimage.Options{CacheDir: filepath.Join(f.Cache, "kernel"), OutDir: o.Images})
		return err
	})
	return o, images, g.Wait()
}

func imageOf(r *rack.Rack, i testimage.Images) operator.Image {
	return operator.Image{URL: r.ImageURL(filepath.Base(i.QCOW2.Path)), SHA256: i.QCOW2.SHA256, DiskFormat: "qcow2"}
}

type demoCommand struct {
	rackFlags
	Keep bool `help:"Leave the rack running until Ctrl-C."`
}

func (c demoCommand) Run(ctx context.Context, log *slog.Logger) error {
	if err := needRoot("the demo"); err != nil {
		return err
	}
	if !log.Enabled(ctx, slog.LevelDebug) {
		// What the demo prints is the show; rackd's end, which central warns of, is not.
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	}
	fmt.Println("building ramdisk and image (once; they are kept in the cache)")
	o, images, err := c.prepare(ctx, "demo", log)
	if err != nil {
		return err
	}
	// One machine is driven by Redfish, the other by IPMI.
	o.Protocols = map[string]lab.BMC{ipmisim.Protocol: ipmisim.Attach(ipmisim.Described)}
	o.FurtherBMCs = map[string][]string{"bios-0": {ipmisim.Protocol}}
	if err := startAfresh(ctx, o.Dir); err != nil {
		return err
	}
	shown := false
	err = rack.Run(ctx, o, func(ctx context.Context, r *rack.Rack) error {
		fmt.Printf("API on %s, two machines and their BMCs in network namespace iy-%s\n\n", r.Stack.Endpoint, o.Name)
		d := demo.Demo{Rack: r, Image: imageOf(r, images), Out: os.Stdout, TTY: term.IsTerminal(int(os.Stdout.Fd()))}
		if err := d.Run(ctx); err != nil {
			return fmt.Errorf("%w\nlogs: %s, %s", err, r.Rackds[0].Log(), filepath.Join(o.Dir, "lab"))
		}
		shown = true
		whatNext(os.Stdout, r.Stack.Endpoint, c.Keep)
		if c.Keep {
			<-ctx.Done()
		}
		return nil
	})
	if downErr := rack.Down(context.WithoutCancel(ctx), o.Dir); err == nil {
		err = downErr
	}
	if ctx.Err() != nil && !shown {
		return errInterrupted
	}
	return err
}

// errInterrupted keeps a demo that was stopped from looking like one that worked.
var errInterrupted = errors.New("interrupted before the instances were up")

// startAfresh removes what an earlier run left.
func startAfresh(ctx context.Context, dir string) error {
	if err := rack.Down(ctx, dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func whatNext(out io.Writer, endpoint string, kept bool) {
	if !kept {
		fmt.Fprintf(out, "\nWhat to try next:\n  bin/ironyard lab up      the same rack, kept running: deploy, kill rackd, watch the console\n"+
			"  bin/ironyard dev         the API with fake machines, in one process\n  README.md                a real rack, a fleet\n")
		return
	}
	fmt.Fprintf(out, "\nThe rack stays up until Ctrl-C. Try:\n  baremetal --os-auth-type none --os-endpoint %s node list\n"+
		"  baremetal --os-auth-type none --os-endpoint %s node undeploy uefi-0\n  bin/ironyard lab console uefi-0 --dir DIR\n", endpoint, endpoint)
}

type labCommand struct {
	Up      labUp      `cmd:"" help:"Bring the rack up with the product on it and keep it running until Ctrl-C."`
	Down    labDown    `cmd:"" help:"Turn the machines off and remove the rack."`
	Status  labStatus  `cmd:"" help:"Show the machines."`
	Console labConsole `cmd:"" help:"Attach to a machine's serial console (Ctrl-C leaves)."`
}

type labUp struct {
	rackFlags
	Rackds int  `help:"Number of rackds, each in its own process." default:"1"`
	Enrol  bool `help:"Enrol the machines and make them available." default:"true" negatable:""`
	labHardware
}

// labHardware is what the machines of a new lab are.
type labHardware struct {
	BootByVariables bool              `help:"UEFI machines boot by their UEFI variables, as real boards do: their BMCs set boot order, boot URIs (UefiHttp) and iSCSI targets."`
	SecureBoot      bool              `help:"UEFI machines know secure boot. It is off, without keys, until their BMC is told."`
	BMC             map[string]string `help:"Further BMC of a machine, as NAME=PROTOCOL." placeholder:"NAME=PROTOCOL"`
}

// protocols are the BMCs that a machine may have besides its Redfish BMC, one a line.
var protocols = map[string]lab.BMC{ipmisim.Protocol: ipmisim.Attach(ipmisim.Described)}

func (h labHardware) into(o *rack.Options) {
	o.Protocols = protocols
	if len(h.BMC) > 0 {
		o.FurtherBMCs = map[string][]string{}
	}
	for name, protocol := range h.BMC {
		o.FurtherBMCs[name] = append(o.FurtherBMCs[name], protocol)
	}
	if !h.BootByVariables && !h.SecureBoot {
		return
	}
	o.Machines = lab.Machines()
	for i := range o.Machines {
		m := &o.Machines[i]
		m.BootByVariables, m.SecureBoot = h.BootByVariables && m.Firmware == machine.UEFI, h.SecureBoot && m.Firmware == machine.UEFI
	}
}

func (c labUp) Run(ctx context.Context, log *slog.Logger) error {
	if err := needRoot("the lab"); err != nil {
		return err
	}
	fmt.Println("building ramdisk and image (once; they are kept in the cache)")
	o, images, err := c.prepare(ctx, "lab", log)
	if err != nil {
		return err
	}
	o.Rackds = c.Rackds
	c.labHardware.into(&o)
	return rack.Run(ctx, o, func(ctx context.Context, r *rack.Rack) error {
		i := imageOf(r, images)
		if c.Enrol {
			if err := enrolAll(ctx, r, i); err != nil {
				return err
			}
		}
		e := r.Stack.Endpoint
		fmt.Printf("API: %s\nTry:\n  baremetal --os-auth-type none --os-endpoint %s node list\n  baremetal --os-auth-type none --os-endpoint %s node deploy uefi-0 --config-drive '{\"meta_data\":{\"hostname\":\"one\"}}'\n"+
			"  bin/ironyard lab console uefi-0\nimage_source %s, sha256 %s, %s\nCtrl-C stops the services; `ironyard lab down` removes the machines.\n", e, e, e, i.URL, i.SHA256, i.DiskFormat)
		<-ctx.Done()
		return nil
	})
}

// enrolAll makes every machine of the lab available, unless it is enrolled already.
func enrolAll(ctx context.Context, r *rack.Rack, i operator.Image) error {
	for _, m := range r.Lab.Machines {
		if _, err := r.Operator.Show(ctx, m.Name); err == nil {
			continue
		}
		e, err := r.Enrolment(m.Name)
		if err != nil {
			return err
		}
		id, err := r.Operator.Enrol(ctx, e)
		if err != nil {
			return err
		}
		if err := r.Operator.MakeAvailable(ctx, id); err != nil {
			return err
		}
		if err := r.Operator.SetImage(ctx, id, i); err != nil {
			return err
		}
	}
	return nil
}

// labPlace finds a lab that is there.
type labPlace struct {
	Cache string `help:"Folder of the cache." default:".cache" type:"path"`
	Dir   string `help:"Folder of the rack. Default: lab in the cache." type:"path"`
}

func (p labPlace) dir() string {
	if p.Dir != "" {
		return p.Dir
	}
	return filepath.Join(p.Cache, "lab")
}

func (p labPlace) load() (*lab.Lab, error) {
	l, err := lab.Load(filepath.Join(p.dir(), "lab"))
	if err != nil {
		return nil, fmt.Errorf("there is no lab in %s (`ironyard lab up` makes one): %w", p.dir(), err)
	}
	return l, nil
}

type labDown struct{ labPlace }

func (c labDown) Run(ctx context.Context) error {
	if err := rack.Down(ctx, c.dir()); err != nil {
		return err
	}
	return os.RemoveAll(c.dir())
}

type labStatus struct {
	labPlace
	JSON bool `help:"Print JSON."`
}

func (c labStatus) Run() error {
	l, err := c.load()
	if err != nil {
		return err
	}
	s, err := l.Status()
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(os.Stdout, s)
	}
	fmt.Printf("lab %s, namespace %s, up: %t\n%-10s %-6s %-6s %-18s %s\n", s.Name, s.Namespace, s.Up, "machine", "boots", "power", "MAC", "console log")
	for _, m := range s.Machines {
		fmt.Printf("%-10s %-6s %-6s %-18s %s\n", m.Name, m.Firmware, m.Power, m.MAC, m.SerialLog)
		for _, protocol := range slices.Sorted(maps.Keys(m.FurtherBMCs)) {
			fmt.Printf("%-10s BMC of protocol %s on %s\n", "", protocol, m.FurtherBMCs[protocol])
		}
	}
	return nil
}

type labConsole struct {
	labPlace
	Machine string `arg:"" help:"Name of the machine."`
}

func (c labConsole) Run(ctx context.Context) error {
	l, err := c.load()
	if err != nil {
		return err
	}
	for _, m := range l.Machines {
		if m.Name != c.Machine {
			continue
		}
		conn, err := machine.DialConsole(ctx, m.Dir)
		if err != nil {
			return fmt.Errorf("open the console of %s (is the machine on?): %w", m.Name, err)
		}
		return attach(ctx, conn)
	}
	return fmt.Errorf("the lab has no machine %q", c.Machine)
}

func attach(ctx context.Context, conn net.Conn) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	go io.Copy(conn, os.Stdin) // ends with the process: a terminal's read cannot be interrupted
	_, err := io.Copy(os.Stdout, conn)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
