package conductor

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// The fleet's key is replaced in the middle of a flow: by the rackd that runs it before its agent
// is answered, and by the next owner after that. The agent is called with its own token all the same.
func TestAgentIsCalledWithItsTokenWhenTheKeyIsReplaced(t *testing.T) {
	fresh, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	replaced := seal.NewKeyring("", fresh.WithOlder(testKey))
	t.Run("before the lookup", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ring := seal.NewKeyring("", testKey.WithOlder())
			var sends func() []string
			x := newTrial(t, func(cfg *Config) { cfg.Keys, cfg.NewAgent = ring, sending(&sends) })
			defer x.stop()
			if err := ring.Adopt(replaced); err != nil {
				t.Fatal(err)
			}
			if got := x.agent(x.Conductor); !slices.Contains(sends(), got) {
				t.Errorf("the agent was given a token that it is not called with")
			}
		})
	})
	t.Run("before a takeover", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var sends func() []string
			x := newTrial(t, nil)
			got := x.agent(x.Conductor)
			x.stop()
			x.owner.Store("b")
			_, stop := x.on("b", func(cfg *Config) { cfg.Keys, cfg.NewAgent = replaced, sending(&sends) })
			defer stop()
			synctest.Wait()
			if !slices.Contains(sends(), got) {
				t.Errorf("the agent was given a token that its next rackd does not call it with")
			}
		})
	})
}

func sending(tokens *func() []string) func(string, func() []string, func() *work.Agent) driver.Agent {
	return func(_ string, t func() []string, state func() *work.Agent) driver.Agent {
		*tokens = t
		return noAgent{state}
	}
}
