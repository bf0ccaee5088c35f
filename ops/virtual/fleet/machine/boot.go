package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet/cdrom"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/ipxe"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/fleet/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// outcome is where a boot has led.
type outcome int

const (
	rests    outcome = iota // the machine stays as it is, on
	restarts                // it starts again by itself
	switches                // it switches itself off
)

// live boots, and boots again as long as the machine restarts by itself.
func (m *Machine) live(ctx context.Context, l *life) {
	defer close(l.done)
	for {
		next := m.boot(ctx)
		m.mu.Lock()
		if m.life != l { // somebody has cut the power
			m.mu.Unlock()
			return
		}
		switch next {
		case restarts:
			m.note(journal.Reset, "", "by itself")
			m.status.Boots++
			m.mu.Unlock()
			continue
		case switches:
			m.note(journal.PowerOff, "", "by itself")
			m.status.On, m.status.State, m.status.Since, m.status.Image = false, Off, time.Now(), ""
		}
		m.life = nil
		m.mu.Unlock()
		l.cancel(nil)
		return
	}
}

// boot is one way from the firmware's first instruction. What it returns when ctx has
// ended is of no interest.
func (m *Machine) boot(ctx context.Context) outcome {
	m.enter(ctx, Booting, "", "", "")
	device := m.takeDevice()
	if m.cfg.Pace.Sleep(ctx, m.cfg.Pace.Firmware) != nil {
		return rests
	}
	m.logIn()
	switch {
	case device == vbmc.Media || device == vbmc.Stick:
		if end, starts := m.bootMedium(ctx, device); starts {
			return end
		}
		device = m.ordered()
	case device == vbmc.HTTP:
		if end, starts := m.bootHTTP(ctx); starts {
			return end
		}
		device = m.ordered()
	case device == "":
		device = m.ordered()
	}
	switch device {
	case vbmc.Disk:
		return m.bootDisk(ctx)
	case volumeDevice:
		return m.bootVolume(ctx, m.san.now.Targets[0].Name)
	}
	return m.bootNetwork(ctx)
}

// enter is the machine's arrival in a state, with a record if kind is not empty;
// nothing when the power has gone meanwhile.
func (m *Machine) enter(ctx context.Context, s State, kind journal.Kind, image, detail string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if kind != "" {
		m.note(kind, image, detail)
	}
	m.status.State, m.status.Since, m.status.Image = s, time.Now(), image
}

// takeDevice is the override of the boot device, empty for none.
func (m *Machine) takeDevice() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	device := m.device
	if m.once {
		m.device, m.once = "", false
	}
	return device
}

// ordered is what the boot order comes to: the volume where it is first, the disk, or the network when there is nothing on the disk.
func (m *Machine) ordered() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.san.first() {
		return volumeDevice
	}
	if holds, _ := m.cfg.Disk.Holds(); holds == disk.Image {
		return vbmc.Disk
	}
	return vbmc.Network
}

// bootMedium starts what is in the CD drive or in the stick. Firmware goes on with its boot order where that does not start.
func (m *Machine) bootMedium(ctx context.Context, device string) (end outcome, starts bool) {
	from := &m.drives.cd
	if device == vbmc.Stick {
		from = &m.drives.stick
	}
	image, _ := m.drives.in(from)
	var s cdrom.System
	err := errors.New("there is no medium in the drive")
	if image != "" {
		s, err = m.disc(ctx, image)
	}
	switch {
	case m.cfg.Disc == nil:
		m.enter(ctx, Stuck, "", "", "this machine loads no image from its BMC")
		return rests, true
	case ctx.Err() != nil:
		return rests, true
	case err != nil:
		m.failed(ctx, err)
		m.drives.read(from, image, err)
		return rests, false
	}
	m.drives.read(from, image, nil)
	if err := m.refuses(s.CommandLine); err != nil {
		m.failed(ctx, err)
		return rests, false
	}
	return m.bootKernel(ctx, s.Kernel, s.CommandLine), true
}

// bootVolume starts the system of a volume.
func (m *Machine) bootVolume(ctx context.Context, name string) outcome {
	if m.cfg.Pace.Sleep(ctx, m.cfg.Pace.Instance) == nil {
		m.enter(ctx, Instance, journal.InstanceUp, name, "from a volume")
	}
	return rests
}

// bootKernel starts a kernel with its ramdisk: one for agents or installers, or an instance's.
func (m *Machine) bootKernel(ctx context.Context, sum, commandLine string) outcome {
	if ramdisk.Starts(commandLine) {
		return m.bootRamdisk(ctx, commandLine)
	}
	if m.cfg.Pace.Sleep(ctx, m.cfg.Pace.Instance) == nil {
		m.enter(ctx, Instance, journal.InstanceUp, sum, "without a disk")
	}
	return rests
}

func (m *Machine) bootDisk(ctx context.Context) outcome {
	image, ok := m.cfg.Disk.Boot()
	if !ok {
		holds, _ := m.cfg.Disk.Holds()
		m.enter(ctx, Stuck, journal.BootFailed, "", fmt.Sprintf("nothing to boot on the disk (%s)", holds))
		return rests
	}
	if m.cfg.Pace.Sleep(ctx, m.cfg.Pace.Instance) == nil {
		m.enter(ctx, Instance, journal.InstanceUp, image, "")
	}
	return rests
}

// bootNetwork starts what DHCP names: the program that has all, or iPXE, which asks for a script until a rackd answers, and follows it.
// Firmware goes on with the disk where it does not start a program, if there is anything on it.
func (m *Machine) bootNetwork(ctx context.Context) outcome {
	said := ""
	for {
		kernel, commandLine, err := m.cfg.Firmware.Program(ctx, m.cfg.MAC)
		if unsigned := m.refusesUnsigned(); unsigned != nil {
			err = unsigned
		}
		switch {
		case err == nil:
			return m.bootKernel(ctx, kernel, commandLine)
		case !errors.Is(err, ipxe.ErrNoProgram):
			if holds, _ := m.cfg.Disk.Holds(); holds == disk.Image {
				m.failed(ctx, err)
				return m.bootDisk(ctx)
			}
		default:
			var script ipxe.Script
			var from string
			if script, from, err = m.cfg.Firmware.Script(ctx, m.cfg.MAC); err == nil {
				return m.follow(ctx, script, from)
			}
		}
		if err.Error() != said { // once, not with every try
			said = err.Error()
			m.failed(ctx, err)
		}
		if m.cfg.Pace.Sleep(ctx, m.cfg.Pace.Retry) != nil {
			return rests
		}
	}
}

func (m *Machine) follow(ctx context.Context, s ipxe.Script, from string) outcome {
	for {
		m.note(journal.BootScript, "", fmt.Sprintf("%s, said %s (%s)", s.Order, from, s.Said))
		switch s.Order {
		case ipxe.LocalDisk:
			return m.bootDisk(ctx)
		case ipxe.Restart:
			_ = m.cfg.Pace.Sleep(ctx, s.Pause)
			return restarts
		}
		var err error
		switch s.Order {
		case ipxe.Volume:
			return m.bootVolume(ctx, s.Volumes[0])
		case ipxe.Ramdisk:
			var kernel string
			if kernel, err = m.load(ctx, s); err == nil {
				return m.bootKernel(ctx, kernel, s.CommandLine)
			}
			m.failed(ctx, err)
		case ipxe.Image:
			var d cdrom.System
			if d, err = m.disc(ctx, s.Image); err == nil {
				return m.bootKernel(ctx, d.Kernel, d.CommandLine)
			}
			m.failed(ctx, err)
		}
		if m.cfg.Pace.Sleep(ctx, s.Pause) != nil {
			return rests
		}
		if s, from, err = m.cfg.Firmware.Chain(ctx, s.Next); err != nil {
			m.failed(ctx, err)
			return restarts
		}
	}
}

// load loads kernel and ramdisk, and returns the kernel's SHA-256.
func (m *Machine) load(ctx context.Context, s ipxe.Script) (kernel string, err error) {
	if kernel, err = m.cfg.Firmware.Load(ctx, s.Kernel); err == nil {
		_, err = m.cfg.Firmware.Load(ctx, s.Initrd)
	}
	return kernel, err
}

func (m *Machine) disc(ctx context.Context, url string) (cdrom.System, error) {
	if m.cfg.Disc == nil {
		return cdrom.System{}, errors.New("this machine starts from no image of a CD")
	}
	return m.cfg.Disc(ctx, url)
}

func (m *Machine) bootRamdisk(ctx context.Context, commandLine string) outcome {
	m.enter(ctx, InRamdisk, "", "", "")
	if m.cfg.Pace.Sleep(ctx, m.cfg.Pace.Ramdisk) != nil {
		return rests
	}
	var end ramdisk.End
	commandLine, err := m.told(ctx, commandLine)
	if err == nil {
		end, err = m.cfg.Agent.Run(ctx, commandLine)
	}
	switch {
	case ctx.Err() != nil:
		return rests
	case err != nil:
		m.note(journal.AgentFailed, "", err.Error())
		return restarts
	case end == ramdisk.PowerOff:
		return switches
	}
	return restarts
}

// looksForDisk is how often a ramdisk looks for the disk with its parameters, or asks for them, with a pause of Retry, before it gives up.
const looksForDisk = 20

// told is a ramdisk's command line with what a second medium or a rackd tells, where it is to look for one or to ask.
func (m *Machine) told(ctx context.Context, commandLine string) (string, error) {
	var ask func() (words string, err error)
	switch {
	case ramdisk.ByMedium(commandLine):
		ask = func() (string, error) { return m.onStick(ctx) }
	case ramdisk.ByServer(commandLine):
		ask = func() (string, error) { return m.cfg.Firmware.Parameters(ctx, m.cfg.MAC) }
	default:
		return commandLine, nil
	}
	var err error
	for range looksForDisk {
		var words string
		if words, err = ask(); err == nil {
			return commandLine + " " + strings.Join(strings.Fields(words), " "), nil
		}
		if m.cfg.Pace.Sleep(ctx, m.cfg.Pace.Retry) != nil {
			break
		}
	}
	return "", fmt.Errorf("the parameters of the ramdisk: %w", err)
}

// onStick reads the parameters on the second medium.
func (m *Machine) onStick(ctx context.Context) (string, error) {
	stick, _, _ := m.Stick()
	switch {
	case m.cfg.Parameters == nil:
		return "", errors.New("this machine has no second drive")
	case stick == "":
		return "", errors.New("there is no disk in the second drive")
	}
	words, err := m.cfg.Parameters(ctx, stick)
	return string(words), err
}

// failed notes why a boot goes no further, unless it is for want of power.
func (m *Machine) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		m.note(journal.BootFailed, "", err.Error())
	}
}
