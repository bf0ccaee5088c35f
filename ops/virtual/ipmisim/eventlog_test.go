package ipmisim

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/rackd/driver"
	ipmidriver "github.com/ironyard/ironyard/rackd/driver/ipmi"
)

// held is a fence that holds, and counts how often it was asked.
type held struct{ asked int }

func (h *held) Check() error { h.asked++; return nil }
func (*held) Work() string   { return "w" }
func (*held) Epoch() uint64  { return 1 }

// The driver reads of the event log what ipmitool has written there, and clears it for ipmitool too.
func TestEventLog(t *testing.T) {
	t.Parallel()
	needs(t, "ipmi_sim", "ipmitool")
	at := start(t, &computer{}, "s3cret-pass")
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("s3cret-pass"), 0o600); err != nil {
		t.Fatal(err)
	}
	ipmitool := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "ipmitool", append(strings.Fields("-I lanplus -C 3 -H 127.0.0.1 -U admin -f "+secret+" -p "+strconv.Itoa(int(at.Port()))), args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("ipmitool %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	d, n := newDriver(t), nodeAt(at.Port(), "s3cret-pass", nil)
	ipmitool("sel", "time", "set", "now")
	ipmitool("sel", "clear") // the simulator notes its own start
	read := func(after string) ([]driver.LogEntry, string) {
		t.Helper()
		entries, mark, err := d.LogEntries(t.Context(), n, after)
		if err != nil {
			t.Fatal(err)
		}
		return entries, mark
	}
	entries, mark := read("")
	if end, err := d.LogEnd(t.Context(), n); len(entries) != 0 || err != nil || end != mark {
		t.Fatalf("an empty log: %v, mark %q, end %q, %v", entries, mark, end, err)
	}
	f := &held{}
	if err := d.ClearLog(t.Context(), f, n); err != nil || f.asked != 0 {
		t.Errorf("an empty log is cleared: %v, fence asked %d times", err, f.asked)
	}
	// Add SEL Entry: a temperature above critical, a power supply that failed, memory, a record of a manufacturer.
	for _, record := range []string{
		"0x00 0x00 0x02 0x00 0xe1 0x0b 0x69 0x20 0x00 0x04 0x01 0x30 0x01 0x59 0x00 0x00",
		"0x00 0x00 0x02 0x10 0xe1 0x0b 0x69 0x20 0x00 0x04 0x08 0x40 0x6f 0x01 0xff 0xff",
		"0x00 0x00 0x02 0x20 0xe1 0x0b 0x69 0x20 0x00 0x04 0x0c 0x50 0xef 0x01 0xff 0xff",
		"0x00 0x00 0xc1 0x30 0xe1 0x0b 0x69 0x57 0x01 0x00 0x01 0x02 0x03 0x04 0x05 0x06",
	} {
		ipmitool(append([]string{"raw", "0x0a", "0x44"}, strings.Fields(record)...)...)
	}
	entries, mark = read(mark)
	var told []string
	for _, e := range entries {
		told = append(told, e.Text)
	}
	// ipmitool's words for the same records; where the library has others, ours.
	list := ipmitool("sel", "list")
	lines := strings.Split(strings.TrimSpace(list), "\n")
	if len(lines) != 4 || len(entries) != 4 {
		t.Fatalf("ipmitool lists %d entries, the driver %d:\n%s\n%v", len(lines), len(entries), list, told)
	}
	for i, want := range []struct{ pattern, severity, ipmitool string }{
		{`^Temperature #0x30: Upper Critical.* going high, asserted$`, hardware.Critical, "Upper Critical going high"},
		{`^Power Supply #0x40: .*[Ff]ailure.*, asserted$`, "", "Failure detected"},
		{`^Memory #0x50: .*[Uu]ncorrectable.*, deasserted$`, "", "Uncorrectable"},
		{`^record of manufacturer 343: 01 02 03 04 05 06$`, "", "OEM"},
	} {
		e := entries[i]
		if !regexp.MustCompile(want.pattern).MatchString(e.Text) || want.severity != "" && e.Severity != want.severity {
			t.Errorf("entry %d: %q, %q", i, e.Text, e.Severity)
		}
		id, _ := strconv.ParseInt(strings.TrimSpace(strings.Split(lines[i], "|")[0]), 16, 32)
		if !strings.Contains(lines[i], want.ipmitool) || fmt.Sprint(id) != e.ID {
			t.Errorf("entry %s: ipmitool says %q", e.ID, lines[i])
		}
	}
	// A BMC puts its own time into records, here one that was set.
	if age := time.Since(entries[0].At).Abs(); age > 26*time.Hour {
		t.Errorf("made at %s", entries[0].At)
	}
	if more, next := read(mark); len(more) != 0 || next != mark {
		t.Errorf("nothing new is told as %v, %q", more, next)
	}
	ipmitool("raw", "0x0a", "0x44", "0", "0", "2", "0x40", "0xe1", "0x0b", "0x69", "0x20", "0", "4", "4", "0x31", "1", "0x52", "0", "0")
	more, next := read(mark)
	if len(more) != 1 || !strings.HasPrefix(more[0].Text, "Fan #0x31: Lower Critical") {
		t.Errorf("one more is told as %v", more)
	}
	if end, err := d.LogEnd(t.Context(), n); err != nil || end != next {
		t.Errorf("the end is %q, %v; want %q", end, err, next)
	}
	// The vendor methods do the same.
	var v driver.Vendor = ipmidriver.Vendor{Driver: d}
	for _, m := range v.VendorMethods() {
		switch m.Name {
		case "get_event_log":
			shown, err := m.Call(t.Context(), nil, n, nil)
			if list, _ := shown.(map[string]any)["entries"].([]driver.LogEntry); err != nil || len(list) != 5 || m.HTTPMethods[0] != http.MethodGet {
				t.Errorf("get_event_log: %v, %v", shown, err)
			}
			if err := m.Check(n, map[string]any{"x": 1}); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("an argument: %v", err)
			}
		case "clear_event_log":
			if _, err := m.Call(t.Context(), f, n, nil); err != nil || f.asked == 0 {
				t.Errorf("clear_event_log: %v, fence asked %d times", err, f.asked)
			}
		}
	}
	if out := ipmitool("sel", "info"); !regexp.MustCompile(`Entries\s*: [01]\s`).MatchString(out) {
		t.Errorf("after it was cleared ipmitool says %s", out)
	}
	// The log begins again: the record of the old mark is gone.
	ipmitool("raw", "0x0a", "0x44", "0", "0", "2", "0x50", "0xe1", "0x0b", "0x69", "0x20", "0", "4", "4", "0x31", "1", "0x52", "0", "0")
	if again, _ := read(next); len(again) == 0 || !strings.HasPrefix(again[len(again)-1].Text, "Fan #0x31") {
		t.Errorf("after the log was cleared %v is told", again)
	}
	lost := fencedOff{}
	if err := d.ClearLog(t.Context(), lost, n); !errors.Is(err, driver.ErrFenced) {
		t.Errorf("a rackd that has lost the node clears the log: %v", err)
	}
}

type fencedOff struct{}

func (fencedOff) Check() error  { return fmt.Errorf("lost: %w", driver.ErrFenced) }
func (fencedOff) Work() string  { return "w" }
func (fencedOff) Epoch() uint64 { return 1 }
