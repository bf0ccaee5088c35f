package ingest_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/work"
)

// A machine that is off shows no adapters: what was known of them stays, with the version that an update has written. One that runs tells
// all that it has.
func TestFirmwareOfPartsThatDoNotShow(t *testing.T) {
	f := newFixture(t)
	n := f.victim("n")
	f.follow()
	seq := 0
	say := func(e work.Event) {
		seq++
		e.ID, e.Node, e.Group, e.Rackd, e.Time = uuid.NewString(), n.UUID, n.ConductorGroup, "rackd-7", time.Now().UTC()
		f.say(bus.EventSubject(n.ConductorGroup, n.UUID), e)
	}
	power := func(state string) { say(work.Event{Kind: work.PowerObserved, Power: state}) }
	shows := func(list ...hardware.Component) {
		say(work.Event{Kind: work.HardwareObserved, Hardware: &hardware.Observation{Firmware: list}})
	}
	bios, nic := hardware.Component{Name: "bios", Current: "1"}, hardware.Component{Name: "nic:1", Current: "2", Flashed: "2"}
	expect := func(when, want string) {
		t.Helper()
		f.drained()
		items, err := f.store.Hardware(t.Context(), n.UUID, store.FirmwareComponent)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, item := range items {
			var c hardware.Component
			if err := json.Unmarshal([]byte(item.Data), &c); err != nil {
				t.Fatal(err)
			}
			got += fmt.Sprintf("%s=%s,%s ", c.Name, c.Current, c.Flashed)
		}
		if got != want {
			t.Errorf("%s: known are %q, want %q", when, got, want)
		}
	}
	power("power on")
	shows(bios, nic, hardware.Component{Name: "bmc", Current: "5"})
	expect("running", "bios=1, bmc=5, nic:1=2,2 ")
	power("power off")
	shows(bios)
	expect("off", "bios=1, nic:1=2,2 ")
	shows(bios, hardware.Component{Name: "nic:1", Current: "3"})
	expect("off, and it shows all the same", "bios=1, nic:1=3,2 ")
	power("power on")
	shows(bios)
	expect("running without the adapter", "bios=1, ")
}
