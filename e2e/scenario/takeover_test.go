package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// progressOf is how far the write of a piece of work is.
func progressOf(d work.Document) (p agentapi.Progress) {
	if len(d.Checkpoint.Progress) > 0 {
		_ = json.Unmarshal(d.Checkpoint.Progress, &p) // what cannot be read is no progress
	}
	return p
}

// midWrite waits until the agent of a node is in the middle of its write, and returns
// the rackd that runs the work.
func midWrite(ctx context.Context, t *testing.T, id string) string {
	d := works.wait(ctx, t, "progress of a write", func(d work.Document) bool {
		p := progressOf(d)
		return d.Node == id && d.Open() && p.DoneBytes > 0 && p.DoneBytes < p.TotalBytes
	})
	t.Logf("%s dies with %d of %d MB written", d.Owner, progressOf(d).DoneBytes>>20, progressOf(d).TotalBytes>>20)
	return d.Owner
}

// written waits until the write of a node has been reported.
func written(ctx context.Context, t *testing.T, id string) string {
	return events.wait(ctx, t, "end of a write", func(e work.Event) bool {
		return e.Node == id && tells(e, "write")
	}).Rackd
}

// tells reports whether an event tells of a phase.
func tells(e work.Event, phase string) bool {
	return slices.ContainsFunc(e.Lines(), func(l work.Line) bool { return l.Phase == phase })
}

// The rackd that deploys a machine is killed and stays dead: once in the middle of
// the write, once between write and reboot. Its neighbour finishes the work; nothing
// is done twice. The first is the quick part.
func TestOwnerDies(t *testing.T) {
	for _, c := range []struct {
		name, machine string
		image         func() operator.Image
		moment        func(context.Context, *testing.T, string) (owner string)
		steps         string // where its heir goes on
	}{
		{"during the write", "bios-0", long, midWrite, `deploy\.write_image`},
		{"between write and reboot", "uefi-0", qcow2, written, `deploy\.(write_image|prepare_instance_boot|tear_down_agent)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.machine != "bios-0" && os.Getenv("IRONYARD_HARDWARE") != "1" {
				t.Skip("NOT RUN: the second of two moments: run `make hardware`, or set IRONYARD_HARDWARE=1")
			}
			ctx := limit(t, 6*time.Minute)
			o := theRack.Operator
			id := enrolled(ctx, t, c.machine, nil)
			if err := o.MakeAvailable(ctx, id); err != nil {
				t.Fatal(err)
			}
			if err := o.SetImage(ctx, id, c.image()); err != nil {
				t.Fatal(err)
			}
			bmc, console := theRack.BMC(c.machine), consoleFromNow(t, c.machine)
			before := len(bmc.Journal.Writes())
			began := console.Offset()
			if err := o.Ask(ctx, id, "active", nil); err != nil {
				t.Fatal(err)
			}
			dead := theRack.Rackd(c.moment(ctx, t, id))
			dead.Kill()
			t.Cleanup(func() { revive(t, dead) })
			if _, err := o.Wait(ctx, id, provision.Active); err != nil {
				t.Fatal(err)
			}
			if _, err := console.Wait(ctx, marker); err != nil {
				t.Fatal(err)
			}
			checkTakeover(ctx, t, id, dead.Name, c.steps)
			checkWrittenOnce(t, id, console.Path(), began)
			checkPower(t, bmc.Journal.Writes()[before:])
			if dead.Running() {
				t.Errorf("%s was started again: the test proves nothing", dead.Name)
			}
			if err := o.Ask(ctx, id, "deleted", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Wait(ctx, id, provision.Available); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// With Ironic's default of 300 s between heartbeats both machines are deployed side by side, one of their rackds is killed in
// the middle of the write, and no step waits for a heartbeat.
func TestDeployAtALongHeartbeat(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("NOT RUN: deploys two machines once more: run `make hardware`, or set IRONYARD_HARDWARE=1")
	}
	ctx := limit(t, 6*time.Minute)
	restartAll(ctx, t, "--heartbeat-timeout", "300s")
	t.Cleanup(func() { restartAll(context.WithoutCancel(ctx), t) })
	o := theRack.Operator
	images := map[string]func() operator.Image{"bios-0": long, "uefi-0": qcow2}
	ids := map[string]string{}
	for name, image := range images {
		ids[name] = enrolled(ctx, t, name, nil)
		if err := o.MakeAvailable(ctx, ids[name]); err != nil {
			t.Fatal(err)
		}
		if err := o.SetImage(ctx, ids[name], image()); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		if err := o.Ask(ctx, id, "active", nil); err != nil {
			t.Fatal(err)
		}
	}
	dead := theRack.Rackd(midWrite(ctx, t, ids["bios-0"]))
	dead.Kill()
	t.Cleanup(func() { revive(t, dead) })
	for name, id := range ids {
		if _, err := o.Wait(ctx, id, provision.Active); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		at := func(phase string) time.Time {
			return events.wait(ctx, t, phase, func(e work.Event) bool { return e.Node == id && tells(e, phase) }).Time
		}
		took := at("reboot").Sub(at("write"))
		t.Logf("%s: from write to reboot %.1f s", name, took.Seconds())
		// The first heartbeat of an agent that waits is due after 90 s.
		if took > 45*time.Second {
			t.Errorf("%s: it waited for a heartbeat", name)
		}
	}
	for _, id := range ids {
		if err := o.Ask(ctx, id, "deleted", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Wait(ctx, id, provision.Available); err != nil {
			t.Error(err)
		}
	}
}

// checkTakeover looks for the one takeover in the node's history.
func checkTakeover(ctx context.Context, t *testing.T, id, dead, steps string) {
	t.Helper()
	is := func(e work.Event) bool { return e.Node == id && e.Phase == "takeover" }
	took := events.wait(ctx, t, "takeover", is)
	if all := events.matching(is); len(all) != 1 {
		t.Errorf("%d takeovers, want one: %+v", len(all), all)
	}
	want := regexp.MustCompile(fmt.Sprintf(`from %s\b.* to %s\b.* at step %s\b`, dead, took.Rackd, steps))
	if took.Rackd == dead || took.Seconds <= 0 || !want.MatchString(took.Detail) {
		t.Errorf("takeover %q by %s in %.1f s, want %s", took.Detail, took.Rackd, took.Seconds, want)
	}
	t.Log(took.Detail)
	lines, err := theRack.Operator.History(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if want.MatchString(l.Event) && l.Conductor == took.Rackd {
			return
		}
	}
	t.Errorf("the node's history has no line %s by %s: %+v", want, took.Rackd, lines)
}

// checkWrittenOnce compares what the agent said with what the rackds saw.
func checkWrittenOnce(t *testing.T, id, console string, from int64) {
	t.Helper()
	text, err := os.ReadFile(console)
	if err != nil {
		t.Fatal(err)
	}
	text = text[from:]
	for what, want := range map[string]int{`msg="writing image"`: 1, `msg="image written"`: 1, "command=" + agentapi.CmdPrepareImage: 2} {
		if got := strings.Count(string(text), what); got != want { // a command is started and succeeds
			t.Errorf("the console has %q %d times, want %d", what, got, want)
		}
	}
	var done int64
	for _, d := range works.matching(func(d work.Document) bool { return d.Node == id && d.Verb == work.Deploy }) {
		p := progressOf(d)
		if p.DoneBytes > 0 && p.DoneBytes < done {
			t.Errorf("the write went back from %d to %d bytes", done, p.DoneBytes)
		}
		done = max(done, p.DoneBytes)
	}
}

// checkPower wants one boot of the ramdisk and one of the instance, and no write of
// an owner after its heir's first.
func checkPower(t *testing.T, writes []vbmc.Write) {
	t.Helper()
	var epoch uint64
	on := 0
	for _, w := range writes {
		if !strings.HasSuffix(w.Path, "ComputerSystem.Reset") {
			continue
		}
		if strings.Contains(w.Body, `"On"`) {
			on++
		} else if !strings.Contains(w.Body, `"ForceOff"`) {
			t.Errorf("unexpected reset %s", w.Body)
		}
		e, err := strconv.ParseUint(w.Epoch, 10, 64)
		if err != nil || e < epoch {
			t.Errorf("epoch %q after %d", w.Epoch, epoch)
		}
		epoch = e
	}
	if on != 2 {
		t.Errorf("the machine was switched on %d times, want twice: for the ramdisk and for the instance\n%+v", on, writes)
	}
	if epoch < 2 {
		t.Errorf("the last reset has epoch %d: the heir wrote none", epoch)
	}
}
