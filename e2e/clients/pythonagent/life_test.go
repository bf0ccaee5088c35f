package pythonagent

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/provision"
)

var marker = regexp.MustCompile(`IRONYARD-INSTANCE-UP .*`)

// From a machine that nobody knows to a running instance, and back.
func TestLife(t *testing.T) {
	for _, name := range []string{"uefi-0", "bios-0"} {
		t.Run(name, func(t *testing.T) {
			ctx := limit(t, time.Hour)
			id := enrolled(ctx, t, name)
			to(ctx, t, id, "manage", provision.Manageable)
			to(ctx, t, id, "inspect", provision.Manageable)
			inspected(ctx, t, id, name)
			to(ctx, t, id, "provide", provision.Available)
			if err := theRack.Operator.SetImage(ctx, id, qcow2()); err != nil {
				t.Fatal(err)
			}
			deployed(ctx, t, id, name)
			to(ctx, t, id, "deleted", provision.Available)
		})
	}
}

// An agent that is told of central alone: it looks itself up, sends what it has found without
// being asked, and heartbeats there.
func TestAgentThatKnowsCentralOnly(t *testing.T) {
	ctx := limit(t, time.Hour)
	d := theRack.Rackd("rackd-1")
	d.Stop()
	if err := d.Start(ctx, "--agent-api-url", theRack.APIURL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Stop()
		if err := d.Start(context.Background()); err != nil {
			t.Error(err)
		}
	})
	id := enrolled(ctx, t, "uefi-0")
	to(ctx, t, id, "manage", provision.Manageable)
	to(ctx, t, id, "inspect", provision.Manageable)
	inspected(ctx, t, id, "uefi-0")
	to(ctx, t, id, "provide", provision.Available)
}

// to asks for a verb and waits for its state.
func to(ctx context.Context, t *testing.T, id, verb string, state provision.State) {
	t.Helper()
	began := time.Now()
	if err := theRack.Operator.Ask(ctx, id, verb, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := theRack.Operator.Wait(ctx, id, state); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s after %s", verb, state, time.Since(began).Round(time.Second))
}

// inspected checks what the agent has found against the machine that was made.
func inspected(ctx context.Context, t *testing.T, id, name string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, theRack.Operator.Base()+"/v1/nodes/"+id+"/inventory", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.81")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var found struct{ Inventory agentapi.Inventory }
	if err := json.NewDecoder(res.Body).Decode(&found); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("the inventory: status %d, %v", res.StatusCode, err)
	}
	m, err := theRack.Enrolment(name)
	if err != nil {
		t.Fatal(err)
	}
	i := found.Inventory
	if len(i.Interfaces) != 1 || i.Interfaces[0].MACAddress != m.MACs[0] || len(i.Disks) != 1 || i.Disks[0].Size != diskMiB<<20 || i.CPU.Count == 0 ||
		i.CPU.Architecture != "x86_64" || i.Memory.PhysicalMB != memoryMiB || !strings.HasPrefix(name, i.Boot.CurrentBootMode) {
		t.Errorf("the agent found %+v; the machine has the card %s, a disk of %d MiB and %d MiB of memory", i, m.MACs[0], diskMiB, memoryMiB)
	}
}

func deployed(ctx context.Context, t *testing.T, id, name string) {
	t.Helper()
	deploying(ctx, t, id, name)()
}

// deploying asks for a deploy, and returns what waits for its instance.
func deploying(ctx context.Context, t *testing.T, id, name string) (await func()) {
	t.Helper()
	console, err := theRack.Serial(name, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := theRack.Operator.Ask(ctx, id, "active", map[string]any{"meta_data": map[string]any{"hostname": name + "-instance"}}); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := theRack.Operator.Wait(ctx, id, provision.Active); err != nil {
			t.Fatal(err)
		}
		line, err := console.Wait(ctx, marker)
		if err != nil {
			t.Fatalf("no instance on the console of %s: %v", name, err)
		}
		if !strings.Contains(line, "hostname="+name+"-instance") {
			t.Errorf("the instance says %q, want its hostname from the config drive", line)
		}
	}
}
