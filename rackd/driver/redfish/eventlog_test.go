package redfish

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

const logsAt = systemAt + "/LogServices"

// logged is a machine with two logs: one of the hardware, one of logins.
func logged(t *testing.T, entries ...map[string]any) *model {
	t.Helper()
	m := newModel("Contoso")
	merge(m.at[systemAt], map[string]any{"LogServices": link(logsAt)})
	m.put(map[string]map[string]any{
		logsAt:            links(logsAt+"/Audit", logsAt+"/SEL"),
		logsAt + "/Audit": {"@odata.id": logsAt + "/Audit", "Id": "AuditLog", "LogEntryType": "Event", "Entries": link(logsAt + "/Audit/E")},
		logsAt + "/SEL": {"@odata.id": logsAt + "/SEL", "Id": "1", "LogEntryType": "SEL", "Entries": link(logsAt + "/SEL/E"),
			"Actions": map[string]any{"#LogService.ClearLog": map[string]any{"target": logsAt + "/SEL/Clear"}}},
		logsAt + "/Audit/E": links(logsAt + "/Audit/E/1"),
	})
	m.log(entries...)
	return m
}

// log replaces what the log of the hardware holds, on two pages.
func (m *model) log(entries ...map[string]any) {
	half := (len(entries) + 1) / 2
	page := func(list []map[string]any) (out []any) {
		for _, e := range list {
			out = append(out, e)
		}
		return out
	}
	m.put(map[string]map[string]any{logsAt + "/SEL/E": {"Members": page(entries[:half]), "Members@odata.nextLink": logsAt + "/SEL/E2"},
		logsAt + "/SEL/E2": {"Members": page(entries[half:])}})
}

func line(id int, created, severity, text string) map[string]any {
	return map[string]any{"@odata.id": fmt.Sprintf("%s/SEL/E/%d", logsAt, id), "Id": fmt.Sprint(id), "Created": created, "Severity": severity, "Message": text}
}

func TestEventLog(t *testing.T) {
	one, two := line(1, "2026-01-01T00:00:00Z", "OK", "started"), line(2, "2026-01-01T02:00:00+01:00", "Critical", "Fan 1 failed")
	m := logged(t, two, one) // newest first, as some have it
	r, d := modelRig(t, m)
	entries, mark, err := d.LogEntries(t.Context(), r.Node, "")
	if err != nil || len(entries) != 2 || entries[0].Text != "started" || entries[1].Severity != hardware.Critical || entries[1].ID != "2" {
		t.Fatalf("%+v, %v", entries, err)
	}
	if end, err := d.LogEnd(t.Context(), r.Node); err != nil || end != mark {
		t.Errorf("the end is %q, %v; want %q", end, err, mark)
	}
	same, later := line(3, "2026-01-01T02:00:00+01:00", "Warning", "Fan 2 is slow"), line(10, "2026-01-01T03:00:00Z", "OK", "")
	later["MessageId"] = "Fan.1.0.Back"
	m.set(func() { m.log(later, same, two, one) })
	entries, next, err := d.LogEntries(t.Context(), r.Node, mark)
	if err != nil || len(entries) != 2 || entries[0].Text != "Fan 2 is slow" || entries[1].Text != "Fan.1.0.Back" {
		t.Fatalf("after two more: %+v, %v", entries, err)
	}
	if none, again, err := d.LogEntries(t.Context(), r.Node, next); err != nil || len(none) != 0 || again != next {
		t.Errorf("nothing new is %+v, mark %q, %v", none, again, err)
	}
	if got := m.written(); len(got) != 0 {
		t.Errorf("reading wrote %v", got)
	}
}

// BMCs write to their log which image was put in. The log is in the node's history, and the address lets its reader in.
func TestTheEventLogTellsNoAddressOfMedia(t *testing.T) {
	const code = "Zm9vYmFyYmF6LXRoZS1jb2RlLW9mLXRoZS1kcml2ZS0x"
	r, d := modelRig(t, logged(t, line(1, "2026-01-01T00:00:00Z", "OK", "Virtual media http://u:hunter2@192.0.2.1/media/1be26c0b/"+code+"/configdrive.img was inserted.")))
	entries, _, err := d.LogEntries(t.Context(), r.Node, "")
	if err != nil || len(entries) != 1 || entries[0].Text != "Virtual media http://192.0.2.1/media/1be26c0b/******/configdrive.img was inserted." {
		t.Errorf("%+v, %v", entries, err)
	}
}

// BMCs quote requests in their log, and what they were sent in them.
func TestTheEventLogTellsNoPassword(t *testing.T) {
	const password = "hunter2&<x"
	quoting := line(1, "2026-01-01T00:00:00Z", "OK", `Request {"Password":"hunter2\u0026<x"}, hunter2%26%3Cx, hunter2&amp;&lt;x of c0mmunity failed.`)
	quoting["Id"] = "c0mmunity-1"
	r, d := modelRig(t, logged(t, quoting))
	r.Node.DriverInfo["bmc_password"], r.Node.DriverInfo["snmp"] = password, map[string]any{"community": "c0mmunity"}
	entries, _, err := d.LogEntries(t.Context(), r.Node, "")
	if err != nil || len(entries) != 1 || entries[0].ID != "******-1" || entries[0].Text != `Request {"Password":"******"}, ******, ****** of ****** failed.` {
		t.Errorf("%+v, %v", entries, err)
	}
}

func TestClearEventLog(t *testing.T) {
	old := line(1, "2026-01-01T00:00:00Z", "OK", "started")
	for name, c := range map[string]struct {
		does func(m *model)
		want error
		said string
	}{
		"it clears":          {func(m *model) { m.log(line(2, "2026-01-02T00:00:00Z", "OK", "the log was cleared")) }, nil, ""},
		"it only says so":    {func(*model) {}, nil, "does not show it"},
		"its answer is lost": {func(m *model) { m.log(); panic(http.ErrAbortHandler) }, driver.ErrUnknown, ""},
	} {
		look := bootLook
		bootLook = 0
		m := logged(t, old)
		m.before = func(m *model, w http.ResponseWriter, r *http.Request, _ map[string]any) bool {
			if !strings.HasSuffix(r.URL.Path, "/SEL/Clear") {
				return false
			}
			c.does(m)
			w.WriteHeader(http.StatusNoContent)
			return true
		}
		r, d := modelRig(t, m)
		err := d.ClearLog(t.Context(), r.Task(networkboot.IPXE()).Fence, r.Node)
		switch {
		case c.want != nil && !errors.Is(err, c.want), c.said != "" && (err == nil || !strings.Contains(err.Error(), c.said)), c.want == nil && c.said == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		}
		if c.want != nil { // asked again, it finds the log empty and writes nothing
			if err := d.ClearLog(t.Context(), r.Task(networkboot.IPXE()).Fence, r.Node); err != nil || len(m.written()) != 1 {
				t.Errorf("%s: then %v, writes %v", name, err, m.written())
			}
		}
		bootLook = look
	}
	m := newModel("Contoso")
	r, d := modelRig(t, m)
	if err := d.ClearLog(t.Context(), r.Task(networkboot.IPXE()).Fence, r.Node); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a machine without a log: %v", err)
	}
}
