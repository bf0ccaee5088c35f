package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// QEMU's names for the USB stick and for the image in it.
const (
	stickID    = "stick"
	stickImage = "stick-image"
)

// errNoStick is returned for a machine whose BMC has no second drive.
var errNoStick error = refused{errors.New("the machine has no USB stick")}

// Stick is what Medium is, of the USB stick. A machine without one is errors.ErrUnsupported.
func (m *Machine) Stick() (image string, problem, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.cfg.USBStick {
		return "", nil, errNoStick
	}
	if m.state.StickProblem != "" {
		problem = errors.New(m.state.StickProblem)
	}
	return m.state.Stick, problem, nil
}

// InsertStick plugs a USB stick with the image of an HTTP URL into the machine, as InsertMedium does with the CD. The machine sees no
// stick without an image.
func (m *Machine) InsertStick(ctx context.Context, image string) error {
	return m.do("inserting a stick into", func() error {
		if !m.cfg.USBStick {
			return errNoStick
		}
		if err := checkMedium(image); err != nil {
			return refused{err}
		}
		if m.state.Stick != "" {
			return ErrMediumInside
		}
		if m.proc != nil {
			if err := m.proc.plug(ctx, image, false); err != nil {
				return err
			}
		}
		m.state.Stick, m.state.StickProblem = image, ""
		return m.saveState()
	})
}

// EjectStick pulls the stick. It is no error that there is none.
func (m *Machine) EjectStick(ctx context.Context) error {
	return m.do("ejecting the stick of", func() error {
		if m.state.Stick == "" {
			return nil
		}
		if m.proc != nil && m.state.StickProblem == "" {
			if err := m.proc.unplug(ctx); err != nil {
				return err
			}
		}
		m.state.Stick, m.state.StickProblem = "", ""
		return m.saveState()
	})
}

// plug opens the image before the stick is there, so one that fails changes nothing. first: the firmware boots it first, once reorder has
// told it.
func (p *process) plug(ctx context.Context, image string, first bool) error {
	scheme, _, _ := strings.Cut(image, ":")
	options := map[string]any{"node-name": stickImage, "driver": "raw", "read-only": true, "file": fileOf(scheme, image)}
	text, err := json.Marshal(options)
	if err != nil {
		return err
	}
	if err := p.client.Execute(ctx, "blockdev-add", options, nil); err != nil {
		return unreadable(err, scheme, string(text))
	}
	device := map[string]any{"driver": "usb-storage", "id": stickID, "bus": "usb.0", "drive": stickImage, "removable": true}
	if first {
		device["bootindex"] = 0
	}
	if err := p.client.Execute(ctx, "device_add", device, nil); err != nil {
		return errors.Join(fmt.Errorf("plugging the stick: %w", err), p.client.Execute(ctx, "blockdev-del", map[string]any{"node-name": stickImage}, nil))
	}
	return nil
}

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

// How often, and how long apart, QEMU is asked to close the image of a stick that was pulled.
const (
	unplugTries = 20
	unplugPause = 50 * time.Millisecond
)

func (p *process) unplug(ctx context.Context) (err error) {
	if err := p.client.Execute(ctx, "device_del", map[string]any{"id": stickID}, nil); err != nil {
		return fmt.Errorf("pulling the stick: %w", err)
	}
	for range unplugTries {
		if err = p.client.Execute(ctx, "blockdev-del", map[string]any{"node-name": stickImage}, nil); err == nil {
			return nil
		}
		select {
		case <-time.After(unplugPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("closing the image of the stick: %w", err)
}
