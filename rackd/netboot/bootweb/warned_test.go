package bootweb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"testing"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// caller is the peer of httptest's requests.
const caller = "192.0.2.1"

// logged is a rack whose log is kept, and warned the lines of warnings with that message.
func logged(t *testing.T) (r *rack, h http.Handler, warned func(message string) []map[string]any) {
	t.Helper()
	var log bytes.Buffer
	r, h = newRack(t, func(c *Config) {
		c.Scripts.Log = slog.New(slog.NewJSONHandler(&log, nil))
	})
	return r, h, func(message string) (found []map[string]any) {
		t.Helper()
		for line := range bytes.Lines(log.Bytes()) {
			var fields map[string]any
			if err := json.Unmarshal(line, &fields); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if fields["level"] == "WARN" && fields["msg"] == message {
				found = append(found, fields)
			}
		}
		return found
	}
}

const (
	nothing = "machine has nothing to boot"
	reason  = "Node m1 is in state \"available\": there is nothing to boot."
)

// A machine that was started for nothing is in the log that operators read, with its node, state and reason: whether it asks for a script
// or its firmware for a program, by MAC address or UUID. So it is where the rackd has not heard the caller's address and tells it nothing.
func TestNothingToBootIsInTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		target string
		hears  bool // and has not heard this caller
		direct bool
		mac    string
		status int
	}{
		"a script":                           {"/boot/script?mac=" + mac, false, false, mac, http.StatusOK},
		"a script by UUID":                   {"/boot/script?uuid=" + id, false, false, "", http.StatusOK},
		"a script, the caller not heard of":  {"/boot/script?mac=" + mac, true, false, mac, http.StatusOK},
		"by UUID, the caller not heard of":   {"/boot/script?uuid=" + id, true, false, "", http.StatusOK},
		"a program":                          {netboot.ProgramPath + netboot.Dashed(mac) + "/" + netboot.ProgramName(false), false, true, mac, http.StatusNotFound},
		"a program, its interface not known": {netboot.ProgramPath + netboot.Dashed(mac) + "/" + netboot.ProgramName(false), false, false, mac, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			r, h, warned := logged(t)
			r.machine.State, r.machine.Order, r.machine.Hears = "available", bootorder.Refuse(reason), c.hears
			r.machine.Order.Direct = c.direct
			w := ask(h, "GET", c.target)
			if w.Code != c.status {
				t.Fatalf("%s: %d %q", c.target, w.Code, w.Body)
			}
			lines := warned(nothing)
			if len(lines) != 1 {
				t.Fatalf("%d lines: %v", len(lines), lines)
			}
			for field, want := range map[string]string{"node": id, "mac": c.mac, "state": "available", "reason": reason, "from": caller} {
				if lines[0][field] != want {
					t.Errorf("%s is %q, want %q", field, lines[0][field], want)
				}
			}
			if c.hears && (bytes.Contains(w.Body.Bytes(), []byte(id)) || bytes.Contains(w.Body.Bytes(), []byte("available"))) {
				t.Errorf("a caller that was not heard of is told %q", w.Body)
			}
		})
	}
}

// A machine that is sent to its disk, or that loads something, is no matter for the log.
func TestWhatBootsIsNotInTheLog(t *testing.T) {
	r, h, warned := logged(t)
	for _, o := range []bootorder.Order{bootorder.LocalDisk(), bootorder.Ramdisk(bootorder.Load{}), bootorder.Later("because")} {
		r.machine.Order = o
		ask(h, "GET", "/boot/script?mac="+mac)
		ask(h, "GET", netboot.ProgramPath+netboot.Dashed(mac)+"/"+netboot.ProgramName(false))
	}
	if lines := warned(nothing); len(lines) > 0 {
		t.Errorf("%v", lines)
	}
}

// Callers that are no node's machine ask as often as they like, and so do those at another address than a node's machine was given. A line
// about a machine is in the log all the same, and the machine itself writes no more than its share.
func TestStrangersKeepNoMachineOutOfTheLog(t *testing.T) {
	const others = "boot script refused: the caller has another address than the machine was given"
	r, h, warned := logged(t)
	r.machine.State, r.machine.Order = "available", bootorder.Refuse(reason)
	for i := range 200 {
		ask(h, "GET", fmt.Sprintf("/boot/script?mac=00:11:22:33:44:%02x", i))
	}
	r.machine.Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.77")}
	for range 200 {
		ask(h, "GET", "/boot/script?mac="+mac)
	}
	if n := len(warned("boot script for an unknown machine")); n != strangers.DefaultLines {
		t.Errorf("%d lines about strangers, want %d", n, strangers.DefaultLines)
	}
	if n := len(warned(others)); n != strangers.DefaultMachineLines {
		t.Errorf("%d lines about callers at other addresses, want %d", n, strangers.DefaultMachineLines)
	}
	r.machine.Addresses = []netip.Addr{netip.MustParseAddr(caller)}
	for range 200 {
		ask(h, "GET", "/boot/script?mac="+mac)
	}
	if n := len(warned(nothing)); n != strangers.DefaultMachineLines {
		t.Errorf("%d lines about the machine, want %d", n, strangers.DefaultMachineLines)
	}
}
