package conductor

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// An operator deletes a node in maintenance while its flow waits in the ramdisk. The rackd that has the flow takes the ramdisk's boot
// back, and with it the medium. It leaves the machine's power alone. Nothing is done where work goes without its node, or where a flow
// has booted nothing.
func TestANodeThatIsDeletedInTheMiddleOfItsFlow(t *testing.T) {
	for name, c := range map[string]struct {
		boots, deleted, again bool
		want                  int
	}{
		"deleted":                          {boots: true, deleted: true, want: 1},
		"the work alone is gone":           {boots: true},
		"deleted, and enrolled again":      {boots: true, deleted: true, again: true},
		"deleted before the machine boots": {deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				m := &machine{power: driver.PowerOff, clean: []driver.Step{inRamdisk("erase", true, time.Hour, &log)}}
				if !c.boots {
					m.clean = []driver.Step{slowly("wait", time.Hour, &log)}
				}
				s := newShelf()
				oneNode(s)
				conductor, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				s.request(nodeA, work.Provide, provision.Cleaning, work.Args{})
				time.Sleep(time.Minute)
				synctest.Wait()
				before := len(m.written())
				s.mu.Lock()
				n := s.nodes[nodeA]
				delete(s.works, nodeA)
				s.mu.Unlock()
				conductor.NodeChanged(nodeA)
				time.Sleep(deletedLook)
				synctest.Wait()
				if c.deleted {
					s.mu.Lock()
					delete(s.nodes, nodeA)
					s.mu.Unlock()
					conductor.NodeChanged(nodeA)
				}
				if c.again {
					s.put(n)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				m.mu.Lock()
				cleaned := m.cleanedUp
				m.mu.Unlock()
				if cleaned != c.want {
					t.Errorf("the ramdisk's boot was taken back %d times, want %d", cleaned, c.want)
				}
				if after := m.written()[before:]; slices.ContainsFunc(after, func(w string) bool { return strings.HasPrefix(w, "power") }) {
					t.Errorf("the machine's power was changed: %v", after)
				}
				if conductor.runner(nodeA) != nil {
					t.Error("a runner is left")
				}
			})
		})
	}
}
