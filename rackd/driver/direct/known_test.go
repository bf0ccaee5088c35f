package direct

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// The agent is told which disks the last inspection found, for images and for steps, and no more of them
// once the work has touched the RAID.
func TestTheAgentIsToldTheKnownDisks(t *testing.T) {
	r := newRig()
	r.Node.Disks = json.RawMessage(`[["S1","0x1",7],["","",9]]`)
	if _, err := run(t, r, "write_image"); err != nil {
		t.Fatal(err)
	}
	if got := r.Writes("agent " + agentapi.CmdPrepareImage); len(got) != 1 || !strings.Contains(got[0], `"ironyard_known_disks":[["S1","0x1",7],["","",9]]`) {
		t.Errorf("the agent was told %v", got)
	}
	task := r.Task(networkboot.IPXE())
	known, err := knownDisks(task)
	if err != nil || len(known) != 2 || known[0] != (agentapi.KnownDisk{Serial: "S1", WWN: "0x1", Size: 7}) {
		t.Errorf("known %+v, %v", known, err)
	}
	p, err := json.Marshal(params(r.Node, known, nil))
	if err != nil || !strings.Contains(string(p), `"ironyard_known_disks":[["S1","0x1",7],["","",9]]`) {
		t.Errorf("a step is told %s, %v", p, err)
	}
	for found, told := range map[string]bool{`[]`: true, `null`: false, ``: false} { // an empty list says that the machine has no disk
		r.Node.Disks = json.RawMessage(found)
		none, err := knownDisks(task)
		if err != nil {
			t.Fatal(err)
		}
		p, err := json.Marshal(params(r.Node, none, nil))
		if err != nil || strings.Contains(string(p), `"ironyard_known_disks":[]`) != told || strings.Contains(string(p), "ironyard_known_disks") != told {
			t.Errorf("where %q was found a step is told %s, %v", found, p, err)
		}
	}
	r.Node.Disks = json.RawMessage(`[["S1","0x1",7]]`)
	task.Facts[driver.FactRAID] = "create_configuration"
	if known, err := knownDisks(task); err != nil || known != nil {
		t.Errorf("after a RAID step: %v, %v", known, err)
	}
	delete(task.Facts, driver.FactRAID)
	task.Node.Disks = json.RawMessage(`{`)
	if _, err := knownDisks(task); err == nil || !strings.Contains(err.Error(), "inspect it again") {
		t.Errorf("what cannot be read: %v", err)
	}
}

// The agent is told where the work has touched the RAID: a volume that is gone is then not missed.
func TestTheAgentIsToldOfChangedVolumes(t *testing.T) {
	const told = `"ironyard_volumes_changed":true`
	for name, changed := range map[string]bool{"no RAID step": false, "a RAID step": true} {
		r := newRig()
		task := r.Task(networkboot.IPXE())
		if changed {
			task.Facts[driver.FactRAID] = "create_configuration"
		}
		if _, err := run(t, r, "write_image"); err != nil {
			t.Fatal(err)
		}
		if got := r.Writes("agent " + agentapi.CmdPrepareImage); len(got) != 1 || strings.Contains(got[0], told) != changed {
			t.Errorf("%s: for an image the agent was told %v", name, got)
		}
		p, err := Interface{}.stepOrder(t.Context(), task, offered{}, driver.InClean, &execution{}).params()
		if err != nil {
			t.Fatal(err)
		}
		if raw, err := json.Marshal(p); err != nil || strings.Contains(string(raw), told) != changed {
			t.Errorf("%s: for a step the agent was told %s, %v", name, raw, err)
		}
		var info agentapi.ImageInfo
		img, err := imageOf(r.Node)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(Settings{}).By(&noting{&info}).byWriter(t.Context(), task, img); err != nil || info.VolumesChanged != changed {
			t.Errorf("%s: for an image of rackd's own the agent is told %+v, %v", name, info, err)
		}
	}
}

// noting is a writer that notes what the agent would be told.
type noting struct{ info *agentapi.ImageInfo }

func (n *noting) CanWrite(driver.DiskImage, bool) error { return nil }
func (n *noting) Seeks() bool                           { return false }

func (n *noting) WriteImage(_ context.Context, _ *driver.Task, o Order) (agentapi.PrepareImageResult, driver.Outcome, error) {
	*n.info = o.Info(driver.DiskImage{})
	return agentapi.PrepareImageResult{}, driver.Done(), nil
}
