package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

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
			m.status.On, m.status.State, m.status.Since = false, Off, time.Now()
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
	if device == vbmc.Media {
		m.enter(ctx, Stuck, "", "", "this machine loads no image from its BMC")
		return rests
	}
	if device == vbmc.Disk {
		return m.bootDisk(ctx)
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
	m.status.State, m.status.Since = s, time.Now()
}

// takeDevice says what to boot from. Without an override that is the disk, or the
// network when there is nothing on the disk.
func (m *Machine) takeDevice() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	device := m.device
	if m.once {
		m.device, m.once = "", false
	}
	if device != "" {
		return device
	}
	if holds, _ := m.cfg.Disk.Holds(); holds == disk.Image {
		return vbmc.Disk
	}
	return vbmc.Network
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

// bootNetwork asks for a script until somebody answers, and follows it.
func (m *Machine) bootNetwork(ctx context.Context) outcome {
	said := ""
	for {
		script, from, err := m.cfg.Firmware.Script(ctx, m.cfg.MAC)
		if err == nil {
			return m.follow(ctx, script, from)
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
		if s.Order == ipxe.Ramdisk {
			if err = errors.Join(m.cfg.Firmware.Load(ctx, s.Kernel), m.cfg.Firmware.Load(ctx, s.Initrd)); err == nil {
				return m.bootRamdisk(ctx, s.CommandLine)
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

func (m *Machine) bootRamdisk(ctx context.Context, commandLine string) outcome {
	m.enter(ctx, InRamdisk, "", "", "")
	if m.cfg.Pace.Sleep(ctx, m.cfg.Pace.Ramdisk) != nil {
		return rests
	}
	end, err := m.cfg.Agent.Run(ctx, commandLine)
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

// failed notes why a boot goes no further, unless it is for want of power.
func (m *Machine) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		m.note(journal.BootFailed, "", err.Error())
	}
}
