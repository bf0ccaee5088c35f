package machine

import (
	"context"
	"errors"
	"fmt"
)

// stick is the drive of a USB stick.
var stick = usbDrive{id: "stick", name: "the stick", none: refused{errors.New("the machine has no USB stick")},
	fitted: func(c Config) bool { return c.USBStick }, in: func(s *state) (image, problem *string) { return &s.Stick, &s.StickProblem }}

// Stick is what Medium is, of the USB stick. A machine without one is errors.ErrUnsupported.
func (m *Machine) Stick() (image string, problem, err error) { return m.inDrive(stick) }

// InsertStick plugs a USB stick with the image of an HTTP URL into the machine, as InsertMedium does with the CD. The machine sees no
// stick without an image.
func (m *Machine) InsertStick(ctx context.Context, image string) error {
	return m.insertInto(ctx, stick, image)
}

// EjectStick pulls the stick. It is no error that there is none.
func (m *Machine) EjectStick(ctx context.Context) error { return m.ejectFrom(ctx, stick) }

// reorder has QEMU write down the boot order again, which it does at a reset alone: the stick came after the first one. The machine is
// paused, and has run nothing. Else a reset ends QEMU.
func (p *process) reorder(ctx context.Context) error {
	for _, step := range []struct {
		command string
		with    any
	}{{"set-action", map[string]any{"reboot": "reset"}}, {"system_reset", nil}, {"set-action", map[string]any{"reboot": "shutdown"}}} {
		if err := p.client.Execute(ctx, step.command, step.with, nil); err != nil {
			return fmt.Errorf("putting the stick first in the boot order: %w", err)
		}
	}
	return nil
}
