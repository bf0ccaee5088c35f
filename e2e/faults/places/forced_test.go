package places

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	states "github.com/ironyard/ironyard/protocol/provision"
)

// powerRead is how often a rackd reads a machine's power: by default with IRONYARD_CHAOS, else more often.
func powerRead() time.Duration {
	if os.Getenv("IRONYARD_CHAOS") != "" {
		return 120 * time.Second
	}
	return 10 * time.Second
}

// byHand gives a machine an order at its BMC, as a person does who knows nothing of Ironyard.
func byHand(t *testing.T, info map[string]any, reset string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprint(info["redfish_address"])+"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
		bytes.NewReader([]byte(fmt.Sprintf(`{"ResetType":%q}`, reset))))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(fmt.Sprint(info["redfish_username"]), fmt.Sprint(info["redfish_password"]))
	req.Header.Set("Content-Type", "application/json")
	person := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} // its own certificate
	resp, err := person.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		t.Fatalf("%s by hand: HTTP %d", reset, resp.StatusCode)
	}
}

// TestPowerByHand switches machines by hand at their BMCs, under two rackds with the defaults of the power sync. One is told to force
// power: its machines are brought back, once. The other one's stay as they are, and that goes on record. A node in maintenance is left
// alone.
func TestPowerByHand(t *testing.T) {
	r := newRig(t)
	f := lightFleet(t, "hand", 3, "127.87.0.0/16")
	flags := []string{"--drivers", "redfish", "--bmc-networks", "127.0.0.0/8", "--power-sync", powerRead().String()}
	r.start(t, spareName, spare, "", flags...)
	r.start(t, "keeps", lane(0), "", flags...)
	r.start(t, "forces", lane(1), "", append(flags, "--force-power-state")...)
	o, err := operator.New(r.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	nodes := make([]string, len(f.Members))
	for i, m := range f.Members {
		e := f.Enrolment(m)
		e.Group, e.MACs, e.Interfaces = lane(min(i, 1)), nil, nil
		if nodes[i], err = o.Enrol(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if err := o.Ask(t.Context(), nodes[i], "manage", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Wait(t.Context(), nodes[i], states.Manageable); err != nil {
			t.Fatal(err)
		}
	}
	keeps, forces, resting := f.Members[0], f.Members[1], f.Members[2]
	r.request(t, nodes[2], request{path: "/maintenance", body: `{"reason":"by hand"}`})
	for _, c := range []struct {
		record, found string
		hand          string
		back          journal.Kind
	}{{"power on", "power off", "ForceOff", journal.PowerOn}, {"power off", "power on", "On", journal.PowerOff}} {
		for i := range nodes {
			r.switched(t, o, nodes[i], c.record)
		}
		before := map[*fleet.Member]uint64{}
		for _, m := range f.Members {
			before[m] = f.Journal.Counts(m.Name)[c.back]
			byHand(t, f.Enrolment(m).DriverInfo, c.hand)
		}
		on := c.record == "power on"
		r.untilEvery(t, 200*time.Millisecond, powerRead()+powerRead()/10+30*time.Second, "what is found goes on record, and is brought back where that is told", func() (bool, string) {
			kept, back := r.power(t, nodes[0]), r.power(t, nodes[1])
			return kept.Power == c.found && forces.Machine.On() == on && back.Power == c.record && back.Target == "",
				fmt.Sprintf("%+v and %+v, machine on %t", kept, back, forces.Machine.On())
		})
		for m, want := range map[*fleet.Member]uint64{keeps: 0, forces: 1, resting: 0} {
			if n := f.Journal.Counts(m.Name)[c.back] - before[m]; n != want {
				t.Errorf("%s by hand: %s was brought back %d times, want %d", c.hand, m.Name, n, want)
			}
		}
		if keeps.Machine.On() == on || resting.Machine.On() == on {
			t.Errorf("%s by hand: a machine that is not forced is on: %t, that in maintenance: %t", c.hand, keeps.Machine.On(), resting.Machine.On())
		}
		said, err := o.HistoryText(t.Context(), nodes[1])
		if err != nil || !strings.Contains(said, c.record+": the machine was found in the other state, and rackd --force-power-state says to bring it back") {
			t.Errorf("the history says %q, %v", said, err)
		}
	}
}

// switched brings a node into a power state.
func (r *rig) switched(t *testing.T, o *operator.Operator, id, target string) {
	t.Helper()
	r.request(t, id, request{path: "/states/power", body: fmt.Sprintf(`{"target":%q}`, target)})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := o.WaitPower(ctx, id, target); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) power(t *testing.T, id string) (p powerOf) {
	t.Helper()
	if err := r.get("/v1/nodes/"+id, &p); err != nil {
		t.Fatal(err)
	}
	return p
}
