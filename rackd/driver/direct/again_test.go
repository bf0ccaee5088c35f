package direct

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
)

// An image that arrives with a wrong checksum is verified in the rack's cache and sent once more; a second
// time fails, with the agent's words. Other failures are final.
func TestADamagedImageIsSentOnceMore(t *testing.T) {
	for _, c := range []struct {
		name, fault string
		lasts       bool
		sent        int
	}{
		{"it arrives whole then", driver.WrongChecksum, false, 2},
		{"it is damaged again", driver.WrongChecksum, true, 2},
		{"the disk failed", "BlockDeviceError", true, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.Fault = c.fault
			asked, well := 0, r.Answer
			r.Answer = func(name string) (any, string) {
				if asked++; asked == 1 || c.lasts {
					return nil, "got aa, expected bb"
				}
				return well(name)
			}
			var write []driver.Step
			for _, s := range New(Settings{}).DeploySteps(r.Node) {
				if s.Name == "write_image" {
					write = append(write, s)
				}
			}
			err := flow(t, r, write)
			if verified := len(r.Writes("verify image")); verified != c.sent-1 {
				t.Errorf("%s: verified %d times", c.name, verified)
			}
			if sent := len(r.Writes("agent " + agentapi.CmdPrepareImage)); sent != c.sent {
				t.Errorf("%s: the command was given %d times", c.name, sent)
			}
			if c.lasts != (err != nil) || err != nil && !strings.Contains(err.Error(), "expected bb") {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
}
