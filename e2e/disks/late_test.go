package disks

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// Disks that come late are waited for where the last inspection knew them, and what never comes, or
// cannot be written to, fails by name after the wait. Two minutes: `make hardware`.
func TestLateDisks(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("takes long: run `make hardware`, or set IRONYARD_HARDWARE=1")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	large := drive{serial: "LARGE", size: 140 * mib, device: scsi(0, "")}
	late := drive{serial: "LATE", size: 112 * mib, late: true}
	fixed := drive{serial: "READONLY", size: 96 * mib, device: scsi(2, ""), readOnly: true}
	r, args := newRack(t, []drive{large, late, fixed})
	r.boot(ctx, args)

	known := []agentapi.KnownDisk{{Serial: "LARGE", Size: large.size}, {Serial: "LATE", Size: late.size}}
	wait := time.AfterFunc(15*time.Second, func() {
		r.vm.Add(ctx, t, map[string]any{"driver": "scsi-hd", "id": "late", "bus": "scsi.0", "scsi-id": 1, "drive": "n-LATE", "serial": "LATE"})
	})
	defer wait.Stop()
	result, c := r.prepare(ctx, r.image, nil, known...)
	if c.Status != agentapi.CommandSucceeded {
		t.Fatalf("with a disk that comes late: %+v", c.Error)
	}
	if got := late.part(t, r.dir, mib, 60*mib); !bytes.Equal(got, r.image.data[mib:61*mib]) {
		t.Errorf("the image went to %s: the smallest disk, which came late, does not hold it", result.RootDevice)
	}
	if err := large.holds(t, r.dir, old); err != nil {
		t.Errorf("written before all disks were there: %v", err)
	}

	for want, ask := range map[string]func() agentapi.Command{
		`serial "READONLY"), which is read-only`: func() agentapi.Command {
			_, c := r.prepare(ctx, r.image, map[string]any{"serial": "READONLY"})
			return c
		},
		"GONE": func() agentapi.Command {
			_, c := r.prepare(ctx, r.image, nil, append(known, agentapi.KnownDisk{Serial: "GONE", Size: 1 << 40})...)
			return c
		},
	} {
		c := ask()
		text := fmt.Sprintf("%+v", c.Error)
		if c.Error != nil {
			text = fmt.Sprintf("%+v", *c.Error)
		}
		t.Logf("%s", text)
		if c.Status != agentapi.CommandFailed || !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %q in it", c.Status, text, want)
		}
	}
	for _, d := range []drive{large, fixed} {
		if err := d.holds(t, r.dir, old); err != nil {
			t.Errorf("written although a disk was missing: %v", err)
		}
	}
}
