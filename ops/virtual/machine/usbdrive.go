package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// usbDrive is a virtual drive that a machine sees on USB while an image is in it.
type usbDrive struct {
	// id is QEMU's name for it, and name that for people.
	id, name string
	// none is for a machine whose BMC has no such drive, and fitted tells one that has it.
	none   error
	fitted func(Config) bool
	// in is what the machine's state says of it.
	in func(*state) (image, problem *string)
}

// image is QEMU's name for the image in the drive.
func (d usbDrive) image() string { return d.id + "-image" }

func (m *Machine) inDrive(d usbDrive) (image string, problem, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !d.fitted(m.cfg) {
		return "", nil, d.none
	}
	in, why := d.in(&m.state)
	if *why != "" {
		problem = errors.New(*why)
	}
	return *in, problem, nil
}

func (m *Machine) insertInto(ctx context.Context, d usbDrive, image string) error {
	return m.do("inserting "+d.name+" into", func() error {
		if !d.fitted(m.cfg) {
			return d.none
		}
		if err := checkMedium(image); err != nil {
			return refused{err}
		}
		in, problem := d.in(&m.state)
		if *in != "" {
			return ErrMediumInside
		}
		if m.proc != nil {
			if err := m.proc.plug(ctx, d, image, false); err != nil {
				return err
			}
		}
		*in, *problem = image, ""
		return m.saveState()
	})
}

func (m *Machine) ejectFrom(ctx context.Context, d usbDrive) error {
	return m.do("ejecting "+d.name+" of", func() error {
		in, problem := d.in(&m.state)
		if *in == "" {
			return nil
		}
		if m.proc != nil && *problem == "" {
			if err := m.proc.unplug(ctx, d); err != nil {
				return err
			}
		}
		*in, *problem = "", ""
		return m.saveState()
	})
}

// plug opens the image before the drive is there, so one that fails changes nothing. first: the firmware boots it first, once reorder has
// told it.
func (p *process) plug(ctx context.Context, d usbDrive, image string, first bool) error {
	scheme, _, _ := strings.Cut(image, ":")
	options := map[string]any{"node-name": d.image(), "driver": "raw", "read-only": true, "file": fileOf(scheme, image)}
	text, err := json.Marshal(options)
	if err != nil {
		return err
	}
	if err := p.client.Execute(ctx, "blockdev-add", options, nil); err != nil {
		return unreadable(err, scheme, string(text))
	}
	device := map[string]any{"driver": "usb-storage", "id": d.id, "bus": "usb.0", "drive": d.image(), "removable": true}
	if first {
		device["bootindex"] = 0
	}
	if err := p.client.Execute(ctx, "device_add", device, nil); err != nil {
		return errors.Join(fmt.Errorf("plugging %s: %w", d.name, err), p.client.Execute(ctx, "blockdev-del", map[string]any{"node-name": d.image()}, nil))
	}
	return nil
}

// How often, and how long apart, QEMU is asked to close the image of a drive that was pulled.
const (
	unplugTries = 20
	unplugPause = 50 * time.Millisecond
)

func (p *process) unplug(ctx context.Context, d usbDrive) (err error) {
	if err := p.client.Execute(ctx, "device_del", map[string]any{"id": d.id}, nil); err != nil {
		return fmt.Errorf("pulling %s: %w", d.name, err)
	}
	for range unplugTries {
		if err = p.client.Execute(ctx, "blockdev-del", map[string]any{"node-name": d.image()}, nil); err == nil {
			return nil
		}
		select {
		case <-time.After(unplugPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("closing the image of %s: %w", d.name, err)
}
