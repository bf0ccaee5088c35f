package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/ironyard/ironyard/ops/virtual/machine/qmp"
)

// ErrMediumInside is returned for a drive that holds another medium.
var ErrMediumInside error = refused{errors.New("the drive holds a medium: eject it first")}

// errNoCD is returned for a machine without a CD drive.
var errNoCD error = refused{errors.New("the machine has no CD drive")}

// Medium is the URL of the image in the CD drive, empty for none. Problem is why the
// last start did not find it there; nil without one.
func (m *Machine) Medium() (image string, problem error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.MediumProblem != "" {
		problem = errors.New(m.state.MediumProblem)
	}
	return m.state.Medium, problem
}

// InsertMedium puts the image of an HTTP URL into the CD drive. QEMU reads of it what the
// machine reads, from the machine's own network; it fetches nothing before the machine
// is on. The server must know ranges of bytes. The error says why an image cannot be
// read; the drive stays empty then.
func (m *Machine) InsertMedium(ctx context.Context, image string) error {
	return m.do("inserting a medium into", func() error {
		if m.cfg.NoCD {
			return errNoCD
		}
		if err := checkMedium(image); err != nil {
			return refused{err}
		}
		if m.state.Medium != "" {
			return ErrMediumInside
		}
		if m.proc != nil {
			if err := m.proc.insert(ctx, image); err != nil {
				return err
			}
		}
		m.state.Medium, m.state.MediumProblem = image, ""
		return m.saveState()
	})
}

// EjectMedium empties the CD drive, whether or not the guest has locked it. An empty one
// is no error.
func (m *Machine) EjectMedium(ctx context.Context) error {
	return m.do("ejecting the medium of", func() error {
		if m.state.Medium == "" {
			return nil
		}
		if m.proc != nil {
			if err := m.proc.eject(ctx); err != nil {
				return err
			}
		}
		m.state.Medium, m.state.MediumProblem = "", ""
		return m.saveState()
	})
}

// checkMedium says why QEMU does not read an image.
func checkMedium(image string) error {
	u, err := url.Parse(image)
	switch {
	case err != nil || u.Host == "":
		return errors.New("the image's URL names no host")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("the drive reads http and https, not %q", u.Scheme)
	}
	return nil
}

// waits reports whether the machine has media when it starts, for which QEMU waits.
func (m *Machine) waits() bool {
	return m.state.Medium != "" || m.state.Stick != "" || m.state.Floppy != ""
}

// load puts the media into the drives of a QEMU that is paused, and lets it go on. As a
// real board does, the machine starts without a medium that cannot be read. The
// caller holds mu.
func (m *Machine) load(ctx context.Context, p *process) error {
	m.state.MediumProblem, m.state.StickProblem, m.state.FloppyProblem = "", "", ""
	fromStick := m.state.Override == Stick
	plug := func(ctx context.Context, image string) error { return p.plug(ctx, stick, image, fromStick) }
	plugFloppy := func(ctx context.Context, image string) error { return p.plug(ctx, floppy, image, false) }
	for _, d := range []struct {
		image   string
		problem *string
		into    func(context.Context, string) error
	}{{m.state.Medium, &m.state.MediumProblem, p.insert}, {m.state.Stick, &m.state.StickProblem, plug}, {m.state.Floppy, &m.state.FloppyProblem, plugFloppy}} {
		if d.image == "" {
			continue
		}
		err := d.into(ctx, d.image)
		var said *unreadableError
		switch {
		case errors.As(err, &said):
			m.cfg.Log.Warn("the machine starts with an empty drive", "error", err)
			*d.problem = err.Error()
		case err != nil:
			return err
		}
	}
	if fromStick && m.state.Stick != "" && m.state.StickProblem == "" {
		if err := p.reorder(ctx); err != nil {
			return err
		}
	}
	if err := p.client.Execute(ctx, "cont", nil, nil); err != nil {
		return fmt.Errorf("starting the machine's processor: %w", err)
	}
	return nil
}

// resume goes on with a start during which the controlling process has died. The caller
// holds mu.
func (m *Machine) resume(ctx context.Context, p *process) error {
	var now struct{ Status string }
	if err := p.client.Execute(ctx, "query-status", nil, &now); err != nil {
		return err
	}
	if now.Status != "prelaunch" {
		return nil
	}
	return m.load(ctx, p)
}

// unreadableError is QEMU's reason not to open an image. It is errors.ErrUnsupported, as
// what a machine does not take.
type unreadableError struct{ reason string }

func (e *unreadableError) Error() string { return "the image cannot be read: " + e.reason }

// Is makes it errors.ErrUnsupported.
func (*unreadableError) Is(target error) bool { return target == errors.ErrUnsupported }

// fileOf are QEMU's options for the file of an image. QEMU trusts no authorities but those of its host, so that a BMC verifies a server
// itself, before.
func fileOf(scheme, image string) map[string]any {
	options := map[string]any{"driver": scheme, "url": image}
	if scheme == "https" {
		options["sslverify"] = false
	}
	return options
}

// insert opens the image before the drive's tray moves, so one that fails changes nothing.
func (p *process) insert(ctx context.Context, image string) error {
	scheme, _, _ := strings.Cut(image, ":")
	// An options object instead of a file name, in which QEMU would look for options.
	options, err := json.Marshal(map[string]any{"driver": "raw", "file": fileOf(scheme, image)})
	if err != nil {
		return err
	}
	err = p.client.Execute(ctx, "blockdev-change-medium", map[string]any{
		"id": driveID, "filename": "json:" + string(options), "read-only-mode": "read-only", "force": true}, nil)
	return unreadable(err, scheme, string(options))
}

// unreadable is an error of QEMU's about an image that was to be opened with those options; others stay as they are.
func unreadable(err error, scheme, options string) error {
	said, is := errors.AsType[*qmp.Error](err)
	if !is {
		return err
	}
	reason := said.Description
	if strings.Contains(reason, "Unknown driver") {
		reason = "this QEMU has no driver for " + scheme + " (Debian's package qemu-block-extra)"
	}
	// The URL may name who is allowed to read.
	return &unreadableError{strings.NewReplacer(options, "the image", urlIn(options), "the image").Replace(reason)}
}

func (p *process) eject(ctx context.Context) error {
	if err := p.client.Execute(ctx, "eject", map[string]any{"id": driveID, "force": true}, nil); err != nil {
		return err
	}
	return p.client.Execute(ctx, "blockdev-close-tray", map[string]any{"id": driveID}, nil)
}

// urlIn is the URL in the options of an image.
func urlIn(options string) string {
	var o struct {
		File struct{ URL string }
	}
	if json.Unmarshal([]byte(options), &o) != nil || o.File.URL == "" {
		return options
	}
	return o.File.URL
}
