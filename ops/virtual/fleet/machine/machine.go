// Package machine is a simulated computer: power, boot order, and what happens from
// power on to the instance. A virtual BMC switches it, as it would a real one.
//
// It may import ops/virtual/vbmc and ops/virtual/fleet's own packages. Invariants: whoever has
// switched a machine off, or reset it, finds it off or started anew on return: nothing of
// the boot before goes on; a machine that is off, or whose instance runs, costs
// neither goroutine nor timer.
package machine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet/cdrom"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/ipxe"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/fleet/pace"
	"github.com/ironyard/ironyard/ops/virtual/fleet/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// Firmware boots from the network. *ipxe.Client is one.
type Firmware interface {
	Script(ctx context.Context, mac string) (s ipxe.Script, from string, err error)
	Chain(ctx context.Context, urls []string) (s ipxe.Script, from string, err error)
	Load(ctx context.Context, url string) (sum string, err error)
	// Program is that which DHCP names, if it does; else the error is ipxe.ErrNoProgram. Parameters are those of a ramdisk that came so.
	Program(ctx context.Context, mac string) (kernel, commandLine string, err error)
	Parameters(ctx context.Context, mac string) (string, error)
}

// Agent is what the ramdisk starts. *ramdisk.Agent is one.
type Agent interface {
	Run(ctx context.Context, commandLine string) (ramdisk.End, error)
}

// Config of a machine.
type Config struct {
	Name, MAC string
	Disk      *disk.Disk
	Journal   *journal.Journal
	Pace      *pace.Pace
	// Firmware and Agent; without them the machine has power and nothing else.
	Firmware Firmware
	Agent    Agent
	// Disc reads the image in the CD drive; nil: the machine starts from none.
	Disc func(ctx context.Context, url string) (cdrom.System, error)
	// Web loads the image at a URL by UEFI HTTP boot; nil: its firmware has no such thing.
	Web func(ctx context.Context, url string) (cdrom.System, error)
	// Parameters reads the disk on which a ramdisk in an image of an operator's finds the rest of its command line; nil: it has none.
	Parameters func(ctx context.Context, url string) ([]byte, error)
	// Volumes: its firmware attaches the volume that its BMC was told of.
	Volumes bool
	// SecureBoot: its firmware has it.
	SecureBoot bool
}

// State is how far a machine has got.
type State string

// The states.
const (
	Off       State = "off"
	On        State = "on" // of a machine that has power and nothing else
	Booting   State = "booting"
	InRamdisk State = "ramdisk"
	Instance  State = "instance"
	Stuck     State = "stuck" // nothing to boot on its disk
)

// Status is a machine at this moment.
type Status struct {
	On    bool      `json:"on"`
	State State     `json:"state"`
	Since time.Time `json:"since"`
	// Boots counts how often it was switched on or started again.
	Boots uint64 `json:"boots"`
	// Image is what the instance is that runs: the image on the disk, the volume, or the kernel.
	Image string `json:"image,omitempty"`
}

// ErrOff is returned by what needs a machine that is on.
var ErrOff = errors.New("the machine is off")

var errPower = errors.New("the power was cut")

// Machine is safe for concurrent use. It implements vbmc.Computer.
type Machine struct {
	cfg Config
	// switching makes power actions follow one another.
	switching sync.Mutex
	buttons   sync.WaitGroup
	gone      chan struct{} // closed by Close

	mu     sync.Mutex
	status Status
	device string
	once   bool
	life   *life // nil when nothing moves
	drives drives
	web    web
	san    san
	secure secure
}

// life is the goroutine that boots, from a start to where the machine rests.
type life struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
}

var _ vbmc.Computer = (*Machine)(nil)

// New returns a machine that is off; Close ends what it does.
func New(c Config) *Machine {
	return &Machine{cfg: c, gone: make(chan struct{}), status: Status{State: Off, Since: time.Now()}}
}

// Close switches the machine off for good.
func (m *Machine) Close() {
	close(m.gone)
	m.switching.Lock()
	m.stop("the fleet ends")
	m.switching.Unlock()
	m.buttons.Wait()
}

// Status returns where the machine is.
func (m *Machine) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

// On tells whether it is on.
func (m *Machine) On() bool { return m.Status().On }

// Starts counts how often it was switched on or started again.
func (m *Machine) Starts() uint64 { return m.Status().Boots }

// Start switches it on; if it is on, nothing happens.
func (m *Machine) Start(context.Context) error {
	m.switching.Lock()
	defer m.switching.Unlock()
	m.start(journal.PowerOn, journal.ByBMC)
	return nil
}

// Stop cuts the power; if it is off, nothing happens.
func (m *Machine) Stop(context.Context) error {
	m.switching.Lock()
	defer m.switching.Unlock()
	m.stop(journal.ByBMC)
	return nil
}

// Reset starts the machine anew; it must be on.
func (m *Machine) Reset(context.Context) error { return m.reset(journal.ByBMC) }

// Glitch is a reset that nobody asked for.
func (m *Machine) Glitch() error { return m.reset("by a glitch of its power") }

func (m *Machine) reset(why string) error {
	m.switching.Lock()
	defer m.switching.Unlock()
	if !m.end(journal.Reset, why) {
		return ErrOff
	}
	m.start("", why)
	return nil
}

// Shutdown presses the power button: the instance ends soon. The ramdisk does not care.
func (m *Machine) Shutdown(context.Context) error { return m.button(false) }

// Restart is Shutdown, and on again.
func (m *Machine) Restart(context.Context) error { return m.button(true) }

// Interrupt does nothing to a machine that has no kernel to stop.
func (m *Machine) Interrupt(context.Context) error {
	if !m.On() {
		return ErrOff
	}
	return nil
}

// BootOverride implements vbmc.Computer.
func (m *Machine) BootOverride() (device string, once bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.device, m.once
}

// SetBootOverride implements vbmc.Computer.
func (m *Machine) SetBootOverride(device string, once bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.device, m.once = device, once && device != ""
	return nil
}

// start switches the machine on, if it is off; kind is empty when that is noted
// already. The caller holds switching.
func (m *Machine) start(kind journal.Kind, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.status.On && kind != "" { // else it is reset
		return
	}
	if kind != "" {
		m.note(kind, "", why)
	}
	m.status = Status{On: true, State: On, Since: time.Now(), Boots: m.status.Boots + 1}
	m.san.start()
	m.secure.now = m.secure.next
	if m.cfg.Firmware == nil {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	m.life = &life{cancel: cancel, done: make(chan struct{})}
	go m.live(ctx, m.life)
}

func (m *Machine) stop(why string) { m.end(journal.PowerOff, why) }

// end switches a machine off that is on, and returns once nothing of it moves. One that is reset has power meanwhile,
// and its BMC says so. The caller holds switching.
func (m *Machine) end(kind journal.Kind, why string) (was bool) {
	m.mu.Lock()
	l := m.life
	was = m.status.On
	if was {
		m.note(kind, "", why)
		m.status.On, m.status.State, m.status.Since, m.status.Image, m.life = false, Off, time.Now(), "", nil
		if kind == journal.Reset {
			m.status.On, m.status.State = true, On
		}
	}
	if l != nil {
		l.cancel(errPower) // under mu, so that nothing is noted of a life that is over
	}
	m.mu.Unlock()
	if l != nil {
		<-l.done
	}
	return was
}

func (m *Machine) button(restart bool) error {
	m.mu.Lock()
	was := m.status
	m.mu.Unlock()
	if !was.On {
		return ErrOff
	}
	if was.State == InRamdisk {
		return nil
	}
	m.buttons.Go(func() {
		timer := time.NewTimer(m.cfg.Pace.Of(m.cfg.Pace.Shutdown))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-m.gone:
			return
		}
		m.switching.Lock()
		defer m.switching.Unlock()
		if m.Status().Boots != was.Boots {
			return // switched off or started anew meanwhile
		}
		m.stop("by the power button")
		if restart {
			m.start(journal.PowerOn, "by the power button")
		}
	})
	return nil
}

func (m *Machine) note(kind journal.Kind, image, detail string) {
	m.cfg.Journal.Note(journal.Record{Machine: m.cfg.Name, Kind: kind, Image: image, Detail: detail})
}
