package lab

import (
	"fmt"

	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/ops/virtual/uefivars"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// Computer is a machine in the words of its BMC: all that a BMC may ask of one.
func Computer(m *machine.Machine) vbmc.Computer { return computer{m} }

type computer struct{ *machine.Machine }

var (
	_ vbmc.BootOrderer = computer{}
	_ vbmc.HTTPBooter  = computer{}
	_ vbmc.KeyHolder   = computer{}
	_ vbmc.ISCSIBooter = computer{}
	_ vbmc.MediaDrive  = computer{}
	_ vbmc.StickDrive  = computer{}
	_ vbmc.FloppyDrive = computer{}

	_ vbmc.ProgressTeller = computer{}
)

// Progress implements vbmc.ProgressTeller.
func (c computer) Progress() (vbmc.Progress, error) {
	far, err := c.Machine.Progress()
	return map[machine.Progress]vbmc.Progress{machine.Off: vbmc.NoProgress, machine.InFirmware: vbmc.InFirmware, machine.Booting: vbmc.PastFirmware}[far], err
}

// BootOptions implements vbmc.BootOrderer.
func (c computer) BootOptions() (options []vbmc.BootOption, ordered int, err error) {
	all, ordered, err := c.Machine.BootOptions()
	for _, o := range all {
		options = append(options, vbmc.BootOption(o))
	}
	return options, ordered, err
}

// SecureBoot implements vbmc.SecureBooter.
func (c computer) SecureBoot() (vbmc.SecureBoot, error) {
	s, err := c.Machine.SecureBoot()
	return vbmc.SecureBoot(s), err
}

// ResetKeys implements vbmc.SecureBooter.
func (c computer) ResetKeys(r vbmc.KeyReset) error {
	resets := map[vbmc.KeyReset]machine.KeyReset{
		vbmc.DefaultKeys: machine.DefaultKeys, vbmc.NoKeys: machine.NoKeys, vbmc.NoPlatformKey: machine.NoPlatformKey}
	kind, ok := resets[r]
	if !ok {
		return fmt.Errorf("machine %s knows no reset of keys %q", c.Name(), r)
	}
	return c.Machine.ResetKeys(kind)
}

// ISCSIBoot implements vbmc.ISCSIBooter.
func (c computer) ISCSIBoot() (now vbmc.ISCSIBoot, next *vbmc.ISCSIBoot, problem string, err error) {
	is, will, problem, err := c.ISCSI()
	if will != nil {
		boot := bootOf(*will)
		next = &boot
	}
	return bootOf(is), next, problem, err
}

// SetISCSIBoot implements vbmc.ISCSIBooter.
func (c computer) SetISCSIBoot(b vbmc.ISCSIBoot) error {
	var attempts []uefivars.Attempt
	for _, t := range b.Targets {
		a := uefivars.Attempt{Local: b.Address, Gateway: b.Gateway, Target: t.Portal, TargetName: t.Name, LUN: t.LUN}
		if b.CHAP != nil {
			chap := uefivars.CHAP(*b.CHAP)
			a.CHAP = &chap
		}
		attempts = append(attempts, a)
	}
	return c.SetISCSI(b.Initiator, attempts)
}

// bootOf takes address and CHAP from the first attempt: a BMC sets them for all.
func bootOf(i machine.ISCSI) vbmc.ISCSIBoot {
	b := vbmc.ISCSIBoot{Initiator: i.Initiator}
	for _, a := range i.Attempts {
		b.Targets = append(b.Targets, vbmc.ISCSITarget{Name: a.TargetName, Portal: a.Target, LUN: a.LUN})
	}
	if len(i.Attempts) == 0 {
		return b
	}
	first := i.Attempts[0]
	b.Address, b.Gateway = first.Local, first.Gateway
	if first.CHAP != nil {
		chap := vbmc.CHAP(*first.CHAP)
		b.CHAP = &chap
	}
	return b
}
