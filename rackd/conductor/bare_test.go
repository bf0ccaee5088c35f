package conductor

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// The steps that every node has run with the ramdisk, and are told so. With disable_ramdisk they do not.
func TestStepsAreToldAsTheyRun(t *testing.T) {
	for _, bare := range []bool{true, false} {
		t.Run(fmt.Sprint("disable_ramdisk: ", bare), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				oneNode(s)
				_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{power: driver.PowerOn}, nil)
				defer kill()
				s.request(nodeA, work.Service, provision.Servicing, work.Args{From: provision.Active, DisableRamdisk: bare,
					Steps: []work.Step{{Interface: "power", Step: "wait", Args: map[string]any{"seconds": 1800.0}}}})
				time.Sleep(time.Minute)
				synctest.Wait()
				s.mu.Lock()
				defer s.mu.Unlock()
				waits := false
				for _, e := range s.events {
					if e.State != provision.ServiceWait || len(e.Internal) == 0 {
						continue
					}
					waits = true
					for what, told := range map[string]string{"the list": string(e.Internal["service_steps"]), "the step": string(e.StepInfo)} {
						if strings.Contains(told, `"requires_ramdisk":true`) == bare {
							t.Errorf("%s is told as %s", what, told)
						}
					}
				}
				if !waits {
					t.Error("the wait was not told")
				}
			})
		})
	}
}
