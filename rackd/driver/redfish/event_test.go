package redfish

import (
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Events come in the forms that firmwares send: that of OpenBMC (Event 1.6, by SSE), and of before MessageSeverity. Their origin may be a
// text, a message may be its arguments alone, and a link may stand in place of the event.
func TestFormsOfEvents(t *testing.T) {
	d := newDriver(t, Options{})
	at := time.Date(2026, 2, 19, 3, 55, 29, 0, time.UTC)
	for name, c := range map[string]struct {
		body string
		want driver.BMCEvent
	}{
		"OpenBMC": {`{"@odata.type":"#Event.v1_6_0.Event","Id":"1","Name":"Event Array","Events":[{"MemberId":"88","EventId":"88","EventTimestamp":"2026-02-19T03:55:29+00:00",
			"EventType":"Alert","LogEntry":{"@odata.id":"/redfish/v1/Systems/System_0/LogServices/EventLog/Entries/1674"},"Message":"The resource has been removed successfully.",
			"MessageId":"ResourceEvent.1.2.ResourceRemoved","MessageSeverity":"OK","OriginOfCondition":{"@odata.id":"/redfish/v1/AccountService/Accounts/1"}}]}`,
			driver.BMCEvent{ID: "ResourceEvent.1.2.ResourceRemoved", At: at, Severity: hardware.OK, Text: "The resource has been removed successfully."}},
		"before MessageSeverity": {`{"Events":[{"EventType":"Alert","Severity":"Critical","EventTimestamp":"yesterday","Message":"Fan %1 of %2 failed","MessageArgs":["3","9"],
			"MessageId":"X.1.0.Fan","OriginOfCondition":"/redfish/v1/Chassis/1"}]}`,
			driver.BMCEvent{ID: "X.1.0.Fan", Severity: hardware.Critical, Text: "Fan 3 of 9 failed"}},
		"arguments alone": {`{"Events":[{"MessageSeverity":"Warning","MessageId":"IANA.0.1.CPLD","MessageArgs":["CPLD_0",""],"Message":""}]}`,
			driver.BMCEvent{ID: "IANA.0.1.CPLD", Severity: hardware.Warning, Text: "IANA.0.1.CPLD CPLD_0,"}},
		"a link to the message": {`{"Events":[{"MessageSeverity":"Warning","MessageId":"X.1.0.Fan","Message":{"@odata.id":"/redfish/v1/Registries/X"},"EventTimestamp":7}]}`,
			driver.BMCEvent{ID: "X.1.0.Fan", Severity: hardware.Warning, Text: "X.1.0.Fan"}},
		"a link to the entry": {`{"Events":[{"MessageId":"X.1.0.Fan","LogEntry":{"@odata.id":"/redfish/v1/Systems/1/LogServices/SEL/Entries/1"}}]}`,
			driver.BMCEvent{ID: "X.1.0.Fan", Text: "X.1.0.Fan"}},
		"numbers": {`{"Events":[{"MessageId":"X.1.0.Fan","Message":"Fan %1 of %2 failed","MessageArgs":[3,"9"]}]}`,
			driver.BMCEvent{ID: "X.1.0.Fan", Text: "Fan 3 of 9 failed"}},
		"no arguments": {`{"Events":[{"MessageId":"X.1.0.Fan","Message":"A fan failed","MessageArgs":"3"}]}`,
			driver.BMCEvent{ID: "X.1.0.Fan", Text: "A fan failed"}},
		"one of three says something": {`{"Events":[{"@odata.id":"/redfish/v1/EventService/Events/records/1"},{"Message":7},{"Message":"m","OriginOfCondition":[]}]}`,
			driver.BMCEvent{Text: "m"}},
	} {
		list := d.PostedEvents([]byte(c.body))
		if len(list) != 1 {
			t.Errorf("%s: told %+v", name, list)
			continue
		}
		got := list[0]
		if got.Concerns != nil || got.ID != c.want.ID || !got.At.Equal(c.want.At) || got.Severity != c.want.Severity || got.Text != c.want.Text {
			t.Errorf("%s: told %+v, want %+v", name, got, c.want)
		}
	}
}

// Of several systems behind one BMC an event is told to those that it may be of.
func TestWhoseEventItIs(t *testing.T) {
	list := newDriver(t, Options{}).PostedEvents([]byte(`{"Events":[{"Message":"m","OriginOfCondition":{"@odata.id":"/redfish/v1/Systems/blade1/Processors/CPU1"}}]}`))
	if len(list) != 1 || list[0].Concerns == nil {
		t.Fatalf("told %+v", list)
	}
	for id, want := range map[string]bool{"": true, "/redfish/v1/Systems/blade1": true, "/redfish/v1/Systems/blade1/": true, "/redfish/v1/Systems/blade10": false, "/redfish/v1/Systems/blade": false} {
		if got := list[0].Concerns(&node.Document{DriverInfo: map[string]any{fieldSystem: id}}); got != want {
			t.Errorf("a node with the system %q: %t", id, got)
		}
	}
}

// A post that is made up costs little: arguments that are named often, events without end, and what is no event.
func TestEventsThatGrow(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	body := `{"Events":[{"Message":"` + strings.Repeat("%1", 4000) + `","MessageArgs":["` + strings.Repeat("x", 8000) + `"]}]}`
	if list := d.PostedEvents([]byte(body)); len(list) != 1 || len(list[0].Text) > mostMessage*mostArgument/2 {
		t.Errorf("%d events, the first of %d bytes", len(list), len(list[0].Text))
	}
	if list := d.PostedEvents([]byte(`{"Events":[` + strings.Repeat(`{"Message":"m"},`, 900) + `{}]}`)); len(list) != driver.MostBMCEvents {
		t.Errorf("%d events", len(list))
	}
	for _, junk := range []string{"", "junk", "[]", `{"Events":7}`, `{"MetricValues":[{}]}`, `{"Events":[null,7,"x",{}]}`} {
		if list := d.PostedEvents([]byte(junk)); len(list) != 0 {
			t.Errorf("%q tells %+v", junk, list)
		}
	}
}

// BMCs tell which image was put in. Events are in the node's history, and the address lets its reader in.
func TestEventsTellNoAddressOfMedia(t *testing.T) {
	const code = "Zm9vYmFyYmF6LXRoZS1jb2RlLW9mLXRoZS1kcml2ZS0x"
	const url = "http://u:hunter2@192.0.2.1/media/1be26c0b/" + code + "/configdrive.img"
	const shown = "http://192.0.2.1/media/1be26c0b/******/configdrive.img"
	long := "http://u:" + strings.Repeat("hunter2", mostArgument/7) + "@192.0.2.1/boot.iso" // cut within its password
	for body, want := range map[string]string{
		`{"Events":[{"Message":"Virtual media ` + url + ` was inserted."}]}`:                                  "Virtual media " + shown + " was inserted.",
		`{"Events":[{"Message":"Virtual media %1 was inserted.","MessageArgs":["` + url + `"]}]}`:             "Virtual media " + shown + " was inserted.",
		`{"Events":[{"MessageId":"X.1.0.Media","MessageArgs":["` + url + `"]}]}`:                              "X.1.0.Media " + shown,
		`{"Events":[{"Message":"%1 was inserted.","MessageArgs":["` + long + `"]}]}`:                          "http://192.0.2.1/boot.iso was inserted.",
		`{"Events":[{"Message":"http://%1@192.0.2.1/boot.iso was inserted.","MessageArgs":["u:hunter2"]}]}`:   "http://192.0.2.1/boot.iso was inserted.",
		`{"Events":[{"Message":"/media/1be26c0b/%1/boot.iso was inserted.","MessageArgs":["` + code + `"]}]}`: "/media/1be26c0b/******/boot.iso was inserted.",
		`{"Events":[{"Message":"` + strings.Repeat("x", mostMessage-12) + ` ` + url + `"}]}`:                  strings.Repeat("x", mostMessage-12) + " http://192.",
	} {
		list := newDriver(t, Options{}).PostedEvents([]byte(body))
		if len(list) != 1 || list[0].Text != want {
			t.Errorf("%.200s\ntells %+v, want %q", body, list, want)
		}
	}
}
