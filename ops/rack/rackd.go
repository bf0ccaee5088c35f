package rack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/netns"
	"github.com/ironyard/ironyard/protocol/secretfile"
)

// Machines' addresses begin there, counted from the rack's own; the rackds share
// them out, each with a range of its own.
const (
	firstLease = 99
	leases     = 100
)

// MaxRackds is how many rackds a rack may have.
const MaxRackds = 10

// Rackd is one of the rack's rackds: a process of its own inside the rack's network,
// on an address of its own. Safe for concurrent use.
type Rackd struct {
	Name    string
	Address netip.Addr

	rack     *Rack
	from, to netip.Addr // of its leases

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
}

// newRackd describes rackd number i of n.
func newRackd(r *Rack, i, n int) *Rackd {
	share := leases / n
	from := after(r.Address(), firstLease+i*share)
	return &Rackd{Name: fmt.Sprintf("rackd-%d", i+1), Address: after(r.Address(), i), rack: r, from: from, to: after(from, share-1)}
}

func after(a netip.Addr, n int) netip.Addr {
	for range n {
		a = a.Next()
	}
	return a
}

// Start starts it, with more on its command line, and returns once it is healthy.
func (d *Rackd) Start(ctx context.Context, more ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd != nil && !closed(d.done) {
		return fmt.Errorf("%s runs already", d.Name)
	}
	args, err := d.args(more)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(d.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := d.rack.ns.Command(context.WithoutCancel(ctx), d.rack.opts.Rackd, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	done, err := startOnOwnThread(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", d.Name, err)
	}
	d.cmd, d.done = cmd, done
	if err := d.await(ctx); err != nil {
		d.end(syscall.SIGKILL)
		return err
	}
	return nil
}

// args is its command line.
func (d *Rackd) args(more []string) ([]string, error) {
	o := d.rack.opts
	key, token := filepath.Join(o.Dir, "group.key"), filepath.Join(o.Dir, "bus.token")
	group, err := d.rack.Stack.Key.ForGroup("")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(secretfile.Write(key, []byte(group.Text())), secretfile.Write(token, []byte(d.rack.Stack.BusToken))); err != nil {
		return nil, err
	}
	args := []string{"--name", d.Name, "--bus", "nats://" + net.JoinHostPort(d.rack.Address().String(), busPort), "--bus-token-file", token, "--key-file", key,
		"--data", filepath.Join(o.Dir, d.Name), "--interface", netns.Bridge, "--address", d.Address.String(), "--dhcp-range", d.from.String() + "-" + d.to.String(),
		"--kernel", o.Kernel, "--ramdisk", o.Ramdisk, "--observe", d.observe()}
	if o.RescueRamdisk != "" {
		args = append(args, "--rescue-ramdisk", o.RescueRamdisk)
	}
	return append(append(args, o.RackdArgs...), more...), nil
}

func (d *Rackd) observe() string { return net.JoinHostPort(d.Address.String(), "9411") }

// await waits until rackd says that it is healthy.
func (d *Rackd) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("it was not ready within 20 s"))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if d.healthy(ctx) {
			return nil
		}
		select {
		case <-d.done:
			return fmt.Errorf("%s ended at once; its log is %s", d.Name, d.Log())
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; its log is %s", d.Name, context.Cause(ctx), d.Log())
		case <-tick.C:
		}
	}
}

// healthy asks its health check inside the rack's network.
func (d *Rackd) healthy(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DialContext: d.rack.ns.DialContext, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.observe()+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Log is the file with what it logs.
func (d *Rackd) Log() string { return filepath.Join(d.rack.opts.Dir, d.Name+".log") }

// Running reports whether its process lives.
func (d *Rackd) Running() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cmd != nil && !closed(d.done)
}

// Kill ends it the hard way, as a power cut would.
func (d *Rackd) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end(syscall.SIGKILL)
}

// Stop asks it to end and waits for that.
func (d *Rackd) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end(syscall.SIGTERM)
}

func (d *Rackd) end(s syscall.Signal) {
	if d.cmd == nil {
		return
	}
	d.cmd.Process.Signal(s) // one that has ended by itself needs none
	select {
	case <-d.done:
	case <-time.After(15 * time.Second):
		d.cmd.Process.Kill()
		<-d.done
	}
	d.cmd = nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// startOnOwnThread starts cmd and returns a channel that closes when it has ended.
// Pdeathsig means the death of the thread that started the child, so that thread
// does nothing else for as long as the child lives.
func startOnOwnThread(cmd *exec.Cmd) (done chan struct{}, err error) {
	done = make(chan struct{})
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
		}
		close(done)
	}()
	return done, <-started
}
