package provision

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func TestTableUsesKnownStates(t *testing.T) {
	for _, tr := range Table {
		for _, s := range []State{tr.From, tr.To} {
			if _, ok := Describe(s); !ok {
				t.Errorf("transition %v names unknown state %q", tr, s)
			}
		}
	}
}

func TestNoStateIsADeadEnd(t *testing.T) {
	for _, i := range States {
		out, in := 0, 0
		for _, tr := range Table {
			if tr.From == i.State {
				out++
			}
			if tr.To == i.State {
				in++
			}
		}
		if out == 0 {
			t.Errorf("no way out of %q", i.State)
		}
		if in == 0 && i.State != Enroll {
			t.Errorf("no way into %q", i.State)
		}
	}
}

// From every state an operator's verbs and the rackds' results together reach available.
func TestEveryStateReachesAvailable(t *testing.T) {
	for _, i := range States {
		seen := map[State]bool{i.State: true}
		queue := []State{i.State}
		for len(queue) > 0 {
			s := queue[0]
			queue = queue[1:]
			for _, tr := range Table {
				if tr.From == s && !seen[tr.To] {
					seen[tr.To] = true
					queue = append(queue, tr.To)
				}
			}
		}
		if !seen[Available] {
			t.Errorf("%q never reaches available", i.State)
		}
	}
}

func TestTransientStatesHaveDeadlineAndWayOut(t *testing.T) {
	for _, i := range States {
		tr, fails := Next(i.State, EventFail)
		switch i.Kind {
		case Busy, Waiting:
			if i.Deadline <= 0 || i.Enforcer == "" {
				t.Errorf("%q has no deadline or nobody enforces it", i.State)
			}
			if !fails || tr.Cause != ByRackd {
				t.Errorf("%q cannot fail at its deadline", i.State)
			}
			if i.Target == NoState {
				t.Errorf("%q is transient but bound for nothing", i.State)
			}
		case Held:
			if _, ok := Next(i.State, EventAbort); !ok {
				t.Errorf("%q cannot be aborted", i.State)
			}
			if _, ok := Next(i.State, EventUnhold); !ok {
				t.Errorf("%q cannot be released", i.State)
			}
		case Failed:
			users := 0
			for _, tr := range Table {
				if tr.From == i.State && tr.Cause == ByUser {
					users++
				}
			}
			if users == 0 {
				t.Errorf("no verb leads out of %q", i.State)
			}
		}
	}
}

// allowedVerbs is Ironic's list (ironic-facts §2.2), written down a second time on purpose.
var allowedVerbs = map[State]string{
	Enroll: "manage", Manageable: "provide clean inspect adopt", Available: "active deploy manage",
	CleanWait: "abort", CleanHold: "unhold abort", CleanFail: "manage",
	DeployWait: "abort deleted undeploy", DeployHold: "unhold abort", DeployFail: "active deploy rebuild deleted undeploy",
	Active: "rebuild deleted undeploy rescue service", Error: "rebuild deleted undeploy",
	InspectWait: "abort", InspectFail: "manage inspect", AdoptFail: "adopt manage",
	RescueWait: "abort deleted undeploy", Rescue: "rescue unrescue deleted undeploy",
	RescueFail: "rescue unrescue deleted undeploy", UnrescueFail: "rescue unrescue deleted undeploy",
	ServiceWait: "abort deleted undeploy", ServiceHold: "service unhold abort",
	ServiceFail: "service rescue abort deleted undeploy",
}

func TestVerbsAreRefusedWhereIronicRefusesThem(t *testing.T) {
	for _, i := range States {
		allowed := strings.Fields(allowedVerbs[i.State])
		for _, v := range Verbs {
			want := false
			for _, a := range allowed {
				want = want || a == v.Name
			}
			_, err := Request(i.State, v)
			if (err == nil) != want {
				t.Errorf("verb %q in %q: got error %v, want allowed=%v", v.Name, i.State, err, want)
			}
			var invalid *InvalidStateError
			if err != nil && (!errors.As(err, &invalid) || invalid.From != i.State) {
				t.Errorf("verb %q in %q: error %v is not an InvalidStateError for it", v.Name, i.State, err)
			}
		}
	}
}

func TestTargetOf(t *testing.T) {
	for _, c := range []struct {
		to   State
		by   Event
		prev State
		want State
	}{
		{Deploying, EventDeploy, NoState, Active},
		{DeployFail, EventFail, Active, Active},
		{Active, EventDone, Active, NoState},
		{Cleaning, EventProvide, NoState, Available},
		{Cleaning, EventClean, NoState, Manageable},
		{CleanWait, EventWait, Manageable, Manageable},
		{CleanFail, EventFail, Manageable, Manageable},
		{Cleaning, EventClean, Available, Available}, // tear-down enters cleaning
		{Deleting, EventDelete, Active, Available},
		{Enroll, EventFail, Manageable, NoState},
	} {
		if got := TargetOf(c.to, c.by, c.prev); got != c.want {
			t.Errorf("TargetOf(%q, %q, %q) = %q, want %q", c.to, c.by, c.prev, got, c.want)
		}
	}
}

func TestPagesInDocsAreCurrent(t *testing.T) {
	for page, write := range map[string]func(io.Writer) error{
		"../../docs/states.md": func(w io.Writer) error {
			io.WriteString(w, "# Provision states\n\nGenerated from `protocol/provision` by `make docs`; do not edit.\n\n")
			return WriteDiagram(w)
		},
		"../../docs/ways-out.md": func(w io.Writer) error {
			io.WriteString(w, WaysOutIntro)
			return WriteWaysOut(w)
		},
	} {
		var want bytes.Buffer
		if err := write(&want); err != nil {
			t.Fatal(err)
		}
		if os.Getenv("UPDATE_DOCS") != "" {
			if err := os.WriteFile(page, want.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s is out of date: run `make docs`", page)
		}
	}
}

// The table of ways out has a line for each state in which a node has open work, and
// a way out on it.
func TestEveryStateWithWorkHasAWayOut(t *testing.T) {
	var table bytes.Buffer
	if err := WriteWaysOut(&table); err != nil {
		t.Fatal(err)
	}
	for _, i := range States {
		_, line, found := strings.Cut(table.String(), "\n| "+string(i.State)+" |")
		line, _, _ = strings.Cut(line, "\n")
		switch i.Kind {
		case Busy, Waiting:
			fail, _ := Next(i.State, EventFail)
			if !found || !strings.Contains(line, i.Deadline.String()) || !strings.Contains(line, "watchdog") || !strings.Contains(line, "| "+string(fail.To)+" |") {
				t.Errorf("%s: %s", i.State, line)
			}
		case Held:
			if !found || !strings.Contains(line, "abort →") {
				t.Errorf("%s: %s", i.State, line)
			}
		default:
			if found {
				t.Errorf("%s has no open work", i.State)
			}
		}
	}
}
