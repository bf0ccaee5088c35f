package runner

import (
	"log/slog"
	"testing"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/secrets"
	"github.com/ironyard/ironyard/rackd/view"
)

// A new owner calls the agent in the checkpoint only if a rackd of the group pinned it there, for this boot. Else a server of
// the bus could name an agent of its own, and would be sent the config drive.
func TestAnAgentThatNoRackdPinnedIsNotCalled(t *testing.T) {
	n := &node.Document{UUID: nodeA}
	for what, c := range map[string]struct {
		change func(*work.Document)
		kept   bool
	}{
		"as it was written":           {func(*work.Document) {}, true},
		"seen later":                  {func(d *work.Document) { d.Checkpoint.Agent.Version = "2" }, true},
		"another address":             {func(d *work.Document) { d.Checkpoint.Agent.URL = "https://10.0.0.66:1" }, false},
		"another certificate":         {func(d *work.Document) { d.Checkpoint.Agent.VerifyCA = "theirs" }, false},
		"no code":                     {func(d *work.Document) { d.Checkpoint.Agent.Code = nil }, false},
		"another boot":                {func(d *work.Document) { d.Checkpoint.Boot.Number++ }, false},
		"another work":                {func(d *work.Document) { d.ID = "work-2" }, false},
		"a work that goes on with it": {func(d *work.Document) { d.ID, d.Args.Continues = "work-2", "work-1" }, true},
	} {
		told := alarms{}
		log := slog.New(slog.DiscardHandler)
		deps := &Deps{Name: "a", Members: leased{}, Secrets: &secrets.Opener{Keys: seal.NewKeyring("", testKey), Metrics: told, Log: log}, Log: log}
		d := work.Document{ID: "work-1", Node: nodeA, Checkpoint: work.Checkpoint{Boot: work.Boot{Number: 3}, Agent: &work.Agent{URL: "https://10.0.0.5:9999", VerifyCA: "its own", TokenGiven: true}}}
		d.SignAgent(testKey)
		c.change(&d)
		r := New(deps, n, view.Work{Doc: d}, func() {})
		if kept := r.agent != nil; kept != c.kept || told[bus.WorkBucket] == 1 == c.kept {
			t.Errorf("%s: kept %v, want %v; %d alarms", what, kept, c.kept, told[bus.WorkBucket])
		}
	}
}
