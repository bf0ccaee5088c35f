package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/ops/virtual/netns"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

const serveLock = "serve.lock"

// ErrServed is returned while another process serves the lab's BMCs.
var ErrServed = errors.New("another process serves this lab; end it first")

// Namespace is the lab's network; it exists between Up and Down.
func (l *Lab) Namespace() (*netns.Namespace, error) { return netns.Open("iy-" + l.Name) }

// Up makes the lab's network and writes its description. If the folder holds the
// lab already, its machines and passwords are taken from there. Machines are off
// until somebody tells their BMC, which Serve runs.
func (l *Lab) Up(ctx context.Context) error {
	old, err := Load(l.Dir)
	switch {
	case err == nil && old.Name != l.Name:
		return fmt.Errorf("folder %s belongs to lab %s, not %s", l.Dir, old.Name, l.Name)
	case err == nil:
		*l = *old
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	// The description first: whatever is made after it can be taken down.
	if err := l.save(); err != nil {
		return fmt.Errorf("lab %s: %w", l.Name, err)
	}
	ns, err := netns.Create(ctx, "iy-"+l.Name, l.Bridge)
	if err != nil {
		return fmt.Errorf("lab %s: %w", l.Name, err)
	}
	for _, m := range l.Machines {
		taps := []string{m.Tap}
		for _, card := range m.FurtherCards {
			taps = append(taps, card.Tap)
		}
		for _, tap := range taps {
			if err := ns.AddTap(ctx, tap); err != nil {
				return fmt.Errorf("lab %s: %w", l.Name, err)
			}
		}
	}
	return nil
}

// Serving is a lab whose machines and BMCs this process controls.
type Serving struct {
	Machines map[string]*machine.Machine
	BMCs     map[string]*vbmc.BMC
}

// BMC attaches a further BMC to a machine, of another protocol than Redfish. It opens
// its sockets in the lab's namespace, and returns what serves until ctx ends; nil is
// none for this machine. The machine is the one that the Redfish BMC controls: either
// sees what the other did. An error of serve ends the lab's Serve.
type BMC func(m Machine, computer *machine.Machine, ns *netns.Namespace) (serve func(ctx context.Context) error, err error)

// ByProtocol attaches to each machine the BMCs that its description names, out of the
// known protocols. Each finds its address in Machine.FurtherBMCs.
func ByProtocol(known map[string]BMC) BMC {
	return func(m Machine, computer *machine.Machine, ns *netns.Namespace) (func(context.Context) error, error) {
		var all []func(context.Context) error
		for _, protocol := range slices.Sorted(maps.Keys(m.FurtherBMCs)) {
			attach := known[protocol]
			if attach == nil {
				return nil, fmt.Errorf("no BMC speaks protocol %q; known are %q", protocol, slices.Sorted(maps.Keys(known)))
			}
			serve, err := attach(m, computer, ns)
			if err != nil {
				return nil, fmt.Errorf("protocol %s: %w", protocol, err)
			}
			if serve != nil {
				all = append(all, serve)
			}
		}
		if len(all) == 0 {
			return nil, nil
		}
		return func(ctx context.Context) error {
			g, ctx := errgroup.WithContext(ctx)
			for _, serve := range all {
				g.Go(func() error { return serve(ctx) })
			}
			return g.Wait()
		}, nil
	}
}

// Serve controls the machines and runs their BMCs until ctx ends; the machines run
// on after that. Each machine has a Redfish BMC and those of further, of which one is
// ByProtocol if descriptions name protocols. Once all BMCs listen it calls ready, which
// may be nil.
func (l *Lab) Serve(ctx context.Context, log *slog.Logger, ready func(*Serving), further ...BMC) error {
	unlock, err := l.lock()
	if err != nil {
		return fmt.Errorf("serving lab %s: %w", l.Name, err)
	}
	defer unlock()
	ns, err := l.Namespace()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running, ctx := errgroup.WithContext(ctx)
	s := &Serving{Machines: map[string]*machine.Machine{}, BMCs: map[string]*vbmc.BMC{}}
	defer s.close()
	err = func() error {
		for _, m := range l.Machines {
			if len(m.FurtherBMCs) > 0 && len(further) == 0 {
				return fmt.Errorf("machine %s is to have further BMCs, and none is known here", m.Name)
			}
			b, err := s.add(ctx, m, ns, log)
			if err != nil {
				return err
			}
			listener, err := ns.Listen("tcp", m.BMCAddress)
			if err != nil {
				return fmt.Errorf("BMC of %s: %w", m.Name, err)
			}
			running.Go(func() error { return b.Serve(ctx, listener) })
			for _, attach := range further {
				serve, err := attach(m, s.Machines[m.Name], ns)
				if err != nil {
					return fmt.Errorf("a further BMC of %s: %w", m.Name, err)
				}
				if serve != nil {
					running.Go(func() error { return serve(ctx) })
				}
			}
		}
		return nil
	}()
	if err != nil {
		cancel()
		return fmt.Errorf("serving lab %s: %w", l.Name, errors.Join(err, running.Wait()))
	}
	if ready != nil {
		ready(s)
	}
	return running.Wait()
}

func (s *Serving) add(ctx context.Context, m Machine, ns *netns.Namespace, log *slog.Logger) (*vbmc.BMC, error) {
	cfg := m.Config
	cfg.Command, cfg.Log = ns.Command, log
	opened, err := machine.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s.Machines[m.Name] = opened
	b, err := vbmc.New(vbmc.Config{
		Username: m.BMCUser, Password: m.BMCPassword, UEFI: m.Firmware == machine.UEFI, Diskless: m.Diskless,
		Name: m.Name, UUID: m.UUID, Manufacturer: m.Manufacturer, Product: m.Product, Serial: m.Serial,
		MAC: m.MAC, MemoryMiB: m.MemoryMiB, NoCD: m.NoCD, Log: log, Dial: ns.DialContext,
	}, computer{opened})
	s.BMCs[m.Name] = b
	return b, err
}

func (s *Serving) close() {
	for _, m := range s.Machines {
		_ = m.Close() // letting go of a process cannot leave anything behind
	}
}

// Down turns the machines off and removes network and folder. A lab that is gone
// already is no error. It refuses while another process serves the lab.
func (l *Lab) Down(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(l.Dir, descriptionFile)); err == nil {
		unlock, err := l.lock()
		if err != nil {
			return fmt.Errorf("taking lab %s down: %w", l.Name, err)
		}
		defer unlock()
	}
	ns, err := l.Namespace()
	if err != nil {
		return err
	}
	for _, m := range l.Machines {
		if err := stop(ctx, m.Config); err != nil {
			return fmt.Errorf("taking lab %s down: %w", l.Name, err)
		}
	}
	if err := ns.Delete(ctx); err != nil {
		return fmt.Errorf("taking lab %s down: %w", l.Name, err)
	}
	// Only what the lab made: the folder may be the operator's own.
	err = os.RemoveAll(filepath.Join(l.Dir, "machines"))
	for _, name := range []string{serveLock, descriptionFile} {
		if e := os.Remove(filepath.Join(l.Dir, name)); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func stop(ctx context.Context, cfg machine.Config) error {
	on, err := machine.Running(cfg.Dir)
	if err != nil || !on {
		return err
	}
	m, err := machine.Open(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(m.Stop(ctx), m.Close())
}

// lock claims the right to control the lab's machines.
func (l *Lab) lock() (func(), error) {
	f, err := os.OpenFile(filepath.Join(l.Dir, serveLock), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrServed
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}
