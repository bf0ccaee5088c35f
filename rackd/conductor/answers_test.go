package conductor

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// sayingAgent is an agent whose one command fares as the test says.
type sayingAgent struct {
	noAgent
	say func() (agentapi.Command, error)
}

func (a sayingAgent) Command(context.Context, string) (agentapi.Command, bool, error) {
	c, err := a.say()
	return c, err == nil, err
}

// An agent that calls holds its node only for as long as it also answers, and its command gets on
// where that says how far it is. The error names what did not come.
func TestHeartbeatsAloneDoNotHoldANode(t *testing.T) {
	const limit = 30 * time.Minute
	for name, c := range map[string]struct {
		say  func(since time.Duration) (agentapi.Command, error)
		ends bool
		want string
	}{
		"it cannot be called": {func(time.Duration) (agentapi.Command, error) { return agentapi.Command{}, driver.ErrUnreachable }, true, "has not answered this rackd"},
		"it answers for an hour, and then not": {func(since time.Duration) (agentapi.Command, error) {
			if since > time.Hour {
				return agentapi.Command{}, driver.ErrUnreachable
			}
			return agentapi.Command{ID: "c", Status: agentapi.CommandRunning}, nil
		}, true, "last answered this rackd, or made progress, 30m"},
		"its write hangs in the kernel": {func(time.Duration) (agentapi.Command, error) {
			return agentapi.Command{ID: "c", Status: agentapi.CommandRunning, Progress: &agentapi.Progress{DoneBytes: 7}}, nil
		}, true, "the command hangs"},
		"its write gets on": {func(since time.Duration) (agentapi.Command, error) {
			return agentapi.Command{ID: "c", Status: agentapi.CommandRunning, Progress: &agentapi.Progress{DoneBytes: int64(since / (10 * time.Minute))}}, nil
		}, false, ""},
		"a command that does not tell how far it is": {func(time.Duration) (agentapi.Command, error) {
			return agentapi.Command{ID: "c", Status: agentapi.CommandRunning}, nil
		}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{power: driver.PowerOff}
				m.deploy = []driver.Step{waitForAgent(m), {Interface: "deploy", Name: "write", Priority: 5, Kind: driver.Reattachable,
					Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
						t.Agent.Command(ctx, "c")
						return driver.Wait(time.Minute), nil
					}}}
				s := newShelf()
				oneNode(s)
				began := time.Now()
				c0, _, kill := conductorOn(t, s, "a", owned("a"), m, func(cfg *Config) {
					cfg.Deadlines = map[provision.State]time.Duration{provision.DeployWait: limit}
					cfg.NewAgent = func(_ string, _ func() []string, state func() *work.Agent) driver.Agent {
						return sayingAgent{noAgent{state}, func() (agentapi.Command, error) { return c.say(time.Since(began)) }}
					}
				})
				defer kill()
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
				synctest.Wait()
				for time.Since(began) < 6*time.Hour && s.Work(nodeA).Doc.Open() {
					beat(t, c0)
					time.Sleep(20 * time.Second)
					synctest.Wait()
				}
				d := s.Work(nodeA).Doc
				if c.ends != !d.Open() || c.ends && time.Since(began) > time.Hour+limit+5*time.Minute {
					t.Errorf("after %s: state %q, %+v", time.Since(began), d.State, d.Result)
				}
				if c.ends && (d.Result == nil || !strings.Contains(d.Result.Error, c.want) || !strings.Contains(d.Result.Error, "https://10.0.0.1:9999")) {
					t.Errorf("%+v, want %q", d.Result, c.want)
				}
			})
		})
	}
}
