package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/uefivars"
)

// quitTimeout is how long QEMU may take to obey before it is killed.
const quitTimeout = 5 * time.Second

var (
	// ErrOff is returned by operations that need the machine on.
	ErrOff = errors.New("the machine is off")
	// ErrOn is returned by operations that need the machine off.
	ErrOn = errors.New("the machine is on")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the machine's controller is closed")
)

// Machine controls one machine. Safe for concurrent use; operations on power are
// done one after the other. One controller per folder at a time.
type Machine struct {
	cfg     Config
	watches sync.WaitGroup

	mu     sync.Mutex
	state  state
	proc   *process // nil when off
	closed bool
	// restart asks for a start after the guest's next power-off.
	restart bool
}

// Open takes control of the machine in cfg.Dir, making what is missing. A machine
// that is running is found again; one that was on and has lost its process is
// turned on. The caller must call Close.
func Open(ctx context.Context, cfg Config) (*Machine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Machine{cfg: cfg}
	if err := m.open(ctx); err != nil {
		return nil, fmt.Errorf("opening machine %s: %w", cfg.Name, err)
	}
	return m, nil
}

func (m *Machine) open(ctx context.Context) error {
	if err := m.prepare(); err != nil {
		return err
	}
	if err := m.loadState(); err != nil {
		return err
	}
	live, err := running(m.cfg.Dir)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case live:
		p, err := attach(ctx, m.cfg.Dir)
		if err != nil {
			return fmt.Errorf("its QEMU (process %d) does not answer: %w", m.state.PID, err)
		}
		if err := m.resume(ctx, p); err != nil {
			return errors.Join(fmt.Errorf("its QEMU (process %d) does not go on: %w", m.state.PID, err), p.client.Close())
		}
		m.watch(p)
		m.state.On = true
		return m.saveState()
	case m.state.On:
		return m.start(ctx)
	}
	return nil
}

// Close gives up control. The machine stays as it is.
func (m *Machine) Close() error {
	m.mu.Lock()
	m.closed = true
	p := m.proc
	m.proc = nil
	m.mu.Unlock()
	var err error
	if p != nil {
		if p.cmd != nil {
			// Before the connection ends, or its watcher would wait for QEMU's end.
			err = p.cmd.Process.Release()
		}
		p.client.Close()
	}
	m.watches.Wait()
	return err
}

// Name is the machine's name.
func (m *Machine) Name() string { return m.cfg.Name }

// Config is the configuration with its defaults filled in.
func (m *Machine) Config() Config { return m.cfg }

// On tells whether the machine is on.
func (m *Machine) On() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc != nil
}

// Start turns the machine on; if it is on, nothing happens.
func (m *Machine) Start(ctx context.Context) error {
	return m.do("starting", func() error {
		if m.proc != nil {
			return nil
		}
		return m.start(ctx)
	})
}

// Stop turns the machine off without asking the guest; if it is off, nothing happens.
func (m *Machine) Stop(ctx context.Context) error {
	return m.do("stopping", func() error { return m.stop(ctx) })
}

// Reset restarts the firmware with the boot order of now, without asking the guest.
func (m *Machine) Reset(ctx context.Context) error {
	return m.do("resetting", func() error {
		if m.proc == nil {
			return ErrOff
		}
		if err := m.stop(ctx); err != nil {
			return err
		}
		return m.start(ctx)
	})
}

// Shutdown presses the power button: the guest may turn itself off, later or never.
func (m *Machine) Shutdown(ctx context.Context) error {
	return m.do("shutting down", func() error { return m.button(ctx, false) })
}

// Restart presses the power button and turns the machine on again once it is off.
func (m *Machine) Restart(ctx context.Context) error {
	return m.do("restarting", func() error { return m.button(ctx, true) })
}

// Interrupt sends a non-maskable interrupt.
func (m *Machine) Interrupt(ctx context.Context) error {
	return m.do("interrupting", func() error {
		if m.proc == nil {
			return ErrOff
		}
		if m.cfg.Arch == AArch64 {
			return ErrNoInterrupt
		}
		return m.proc.client.Execute(ctx, "inject-nmi", nil, nil)
	})
}

// BootOverride is the device that goes before the default, empty for none, and
// whether only the next start uses it.
func (m *Machine) BootOverride() (device string, once bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Override, m.state.Once
}

// SetBootOverride sets what BootOverride returns. It acts at the next start of the
// firmware: power on, reset, or the guest's own reboot.
func (m *Machine) SetBootOverride(device string, once bool) error {
	return m.do("setting boot device", func() error {
		if device != "" {
			if err := m.cfg.boots(device); err != nil {
				return err
			}
		}
		m.state.Override, m.state.Once, m.state.Withdrawn = device, once && device != "", device == ""
		return m.saveState()
	})
}

// Console connects to the serial line. QEMU serves one connection at a time; what
// the machine prints goes to the log in any case.
func (m *Machine) Console(ctx context.Context) (net.Conn, error) {
	return DialConsole(ctx, m.cfg.Dir)
}

// DialConsole is Console for a process that does not control the machine.
func DialConsole(ctx context.Context, dir string) (net.Conn, error) {
	conn, err := dial(ctx, dir, serialSocket)
	if err != nil {
		return nil, fmt.Errorf("connecting to the console in %s (is the machine on?): %w", dir, err)
	}
	return conn, nil
}

// Running tells whether the machine in dir is on, for a process that does not
// control it.
func Running(dir string) (bool, error) { return running(dir) }

// do runs an operation alone and says whose it was.
func (m *Machine) do(what string, f func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := error(ErrClosed)
	if !m.closed {
		err = f()
	}
	if err != nil {
		return fmt.Errorf("%s machine %s: %w", what, m.cfg.Name, err)
	}
	return nil
}

func (m *Machine) button(ctx context.Context, restart bool) error {
	if m.proc == nil {
		return ErrOff
	}
	m.restart = restart
	return m.proc.client.Execute(ctx, "system_powerdown", nil, nil)
}

// start begins a boot; the caller holds mu and knows that the machine is off.
func (m *Machine) start(ctx context.Context) error {
	first := m.cfg.DefaultBoot
	if m.state.Override != "" {
		first = m.state.Override
	}
	once := m.state.Once
	m.writeStaged(ctx)
	if m.cfg.BootByVariables {
		err := m.override(ctx)
		switch {
		case errors.Is(err, uefivars.ErrInterrupted):
			// The firmware can end that only if it is started.
			m.cfg.Log.Warn("the boot override waits for the next start", "error", err)
			once = false
		case err != nil:
			return errors.Join(fmt.Errorf("boot device %s: %w", m.state.Override, err), m.saveState())
		}
	}
	m.state.Console = m.Serial(-1).Offset()
	p, err := spawn(ctx, m.cfg, first, m.waits())
	if err != nil {
		return errors.Join(err, m.saveState()) // what was staged may be written
	}
	m.state.On, m.state.PID = true, p.cmd.Process.Pid
	if m.waits() {
		// Another controller may have to go on from here.
		err := m.saveState()
		if err == nil {
			err = m.load(ctx, p)
		}
		if err != nil {
			err = errors.Join(err, p.cmd.Process.Kill())
			p.exited()
			m.state.On = false
			return errors.Join(err, m.saveState())
		}
	}
	m.watch(p)
	m.restart = false
	if once {
		m.state.Override, m.state.Once = "", false
	}
	m.cfg.Log.Info("machine started", "boot", first)
	return m.saveState()
}

// stop ends QEMU; the caller holds mu.
func (m *Machine) stop(ctx context.Context) error {
	m.state.On = false
	if m.proc == nil {
		return m.saveState()
	}
	p, pid := m.proc, m.state.PID
	m.proc = nil // tells the watcher that this end is wanted
	err := p.client.Execute(ctx, "quit", nil, nil)
	grace := time.NewTimer(quitTimeout)
	defer grace.Stop()
	select {
	case <-p.client.Done():
	case <-grace.C:
		m.cfg.Log.Warn("QEMU does not quit, killing it", "pid", pid, "error", err)
		if err := kill(p, pid); err != nil {
			return err
		}
		<-p.client.Done()
	}
	p.exited()
	m.cfg.Log.Info("machine stopped")
	return m.saveState()
}

func kill(p *process, pid int) error {
	switch {
	case p.cmd != nil:
		return p.cmd.Process.Kill()
	case pid <= 0:
		return errors.New("QEMU does not quit, and its process is not known")
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// watch makes p the running process and reacts to its end; the caller holds mu.
func (m *Machine) watch(p *process) {
	m.proc = p
	m.watches.Go(func() {
		<-p.client.Done()
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.proc != p || m.closed {
			return // stopped or let go
		}
		m.proc = nil
		m.ended(p.exited())
	})
}

// ended decides what follows an end that the controller did not order.
func (m *Machine) ended(reason string) {
	reboot := reason == "guest-reset" || reason == "guest-shutdown" && m.restart
	m.cfg.Log.Info("guest ended", "reason", reason, "reboot", reboot)
	if reboot {
		ctx, cancel := context.WithTimeout(context.Background(), greetingTimeout)
		defer cancel()
		err := m.start(ctx)
		if err == nil {
			return
		}
		m.cfg.Log.Error("machine does not start after a reboot", "error", err)
	}
	m.state.On = false
	if err := m.saveState(); err != nil {
		m.cfg.Log.Error("cannot save the machine's state", "error", err)
	}
}
