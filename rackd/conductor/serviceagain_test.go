package conductor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// A service takes the place of one that is held in the ramdisk, or follows one that has failed there, and none of its steps
// needs the ramdisk. The machine is brought back into its instance before the node is active, by an abort too. A failure says
// where it is.
func TestAServiceAfterOneInTheRamdisk(t *testing.T) {
	for name, c := range map[string]struct {
		held, fails, abort bool
	}{
		"held":                    {held: true},
		"held, and it fails":      {held: true, fails: true},
		"held, and it is aborted": {held: true, abort: true},
		"failed":                  {},
		"failed, and once more":   {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &stage{machine: &machine{power: driver.PowerOn}, runs: anInstance, network: true}
				of := func(impl driver.Interface) []driver.Named { return []driver.Named{{Name: "m", Impl: impl}} }
				reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": of(m), "management": of(m), "boot": of(m), "deploy": of(m)}})
				if err != nil {
					t.Fatal(err)
				}
				s := newShelf()
				oneNode(s)
				_, _, kill := conductorOn(t, s, "a", owned("a"), m.machine, func(c *Config) { c.Hardware = reg })
				defer kill()
				steps, state := named("tool").Steps, provision.ServiceFail
				if c.held {
					steps, state = append(steps, work.Step{Interface: "power", Step: "hold"}), provision.ServiceHold
				} else {
					m.fails = "tool"
				}
				s.request(nodeA, work.Service, provision.Servicing, work.Args{Steps: steps, From: provision.Active})
				time.Sleep(10 * time.Minute)
				old := s.Work(nodeA).Doc
				if old.State != state || m.runs != aRamdisk {
					t.Fatalf("in %q, the machine runs %q", old.State, m.runs)
				}
				m.fails = ""
				if c.fails {
					m.fails = "bios"
				}
				next := work.Args{Steps: named("bios").Steps, From: state}
				if !c.held {
					next.InRamdisk = true // central has it from the end of the service before
				}
				s.replaces(nodeA, work.Service, provision.Servicing, next)
				if c.abort {
					time.Sleep(30 * time.Second)
					s.abort(nodeA, provision.ServiceFail)
				}
				time.Sleep(30 * time.Minute)
				synctest.Wait()
				d, last := s.Work(nodeA).Doc, s.events[len(s.events)-1]
				want, runs := provision.Active, anInstance
				if c.fails {
					want, runs = provision.ServiceFail, aRamdisk
				}
				if d.Open() || d.State != want || m.runs != runs || (string(last.Internal[work.ServiceRamdisk]) == "true") != c.fails {
					t.Errorf("in %q, the machine runs %q, told %s; %+v", d.State, m.runs, last.Internal, d.Result)
				}
			})
		})
	}
}

// replaces puts work on the shelf that takes the place of what is there, as central's relay does.
func (s *shelf) replaces(id string, v work.Verb, entry provision.State, args work.Args) {
	s.mu.Lock()
	n, old := *s.nodes[id], s.works[id].Doc
	n.Generation++
	n.State = entry
	s.nodes[id] = &n
	d := work.Document{ID: "next", Node: id, Generation: n.Generation, Verb: v, Args: args, Requested: time.Now(), Entry: entry,
		EntryTarget: provision.TargetOf(entry, provision.Event(v), old.Target), Epoch: old.Epoch + 1}
	d.Inherit(&old)
	d.Sign(testKey)
	s.rev++
	s.works[id] = &view.Work{Doc: d, Revision: s.rev}
	s.mu.Unlock()
	s.tell(id)
}

// A service without a ramdisk on a machine that one before has left there: nothing boots the ramdisk, and no step waits for an agent, which
// cannot call. One that takes its place while it is held brings the machine back all the same.
func TestAServiceWithoutARamdiskAfterOneInIt(t *testing.T) {
	for step, holds := range map[string]bool{"wait": false, "reboot": false, "hold": true} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &stage{machine: &machine{power: driver.PowerOn}, runs: anInstance, network: true, fails: "tool"}
				of := func(impl driver.Interface) []driver.Named { return []driver.Named{{Name: "m", Impl: impl}} }
				reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
					"power": of(m), "management": of(m), "boot": of(m), "deploy": of(m)}})
				if err != nil {
					t.Fatal(err)
				}
				s := newShelf()
				oneNode(s)
				_, _, kill := conductorOn(t, s, "a", owned("a"), m.machine, func(c *Config) { c.Hardware = reg })
				defer kill()
				s.request(nodeA, work.Service, provision.Servicing, work.Args{Steps: named("tool").Steps, From: provision.Active})
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				m.readied = false
				s.replaces(nodeA, work.Service, provision.Servicing, work.Args{Steps: []work.Step{{Interface: "power", Step: step}},
					DisableRamdisk: true, InRamdisk: true, From: provision.ServiceFail})
				time.Sleep(10 * time.Minute)
				if holds {
					if d := s.Work(nodeA).Doc; d.State != provision.ServiceHold {
						t.Fatalf("in %q, %+v", d.State, d.Result)
					}
					s.replaces(nodeA, work.Service, provision.Servicing, work.Args{Steps: named("bios").Steps, From: provision.ServiceHold})
				}
				time.Sleep(50 * time.Minute)
				synctest.Wait()
				if d := s.Work(nodeA).Doc; d.Open() || d.State != provision.Active || m.runs != anInstance || m.readied {
					t.Errorf("in %q, the machine runs %q, the ramdisk was prepared: %v, %+v", d.State, m.runs, m.readied, d.Result)
				}
			})
		})
	}
}

// A service that no rackd can begin, for it does not have the node's hardware, leaves the machine where one before has left it, and
// says so.
func TestAServiceThatCannotBeginKeepsWhereTheMachineIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOn}
		s := newShelf()
		oneNode(s)
		s.nodes[nodeA].Driver = "none of this rackd's"
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		args := work.Args{Steps: named("bios").Steps, From: provision.ServiceFail, InRamdisk: true}
		s.request(nodeA, work.Service, provision.Servicing, args)
		time.Sleep(time.Minute)
		synctest.Wait()
		d, last := s.Work(nodeA).Doc, s.events[len(s.events)-1]
		if d.State != provision.ServiceFail || string(last.Internal[work.ServiceRamdisk]) != "true" {
			t.Errorf("in %q, told %s; %+v", d.State, last.Internal, d.Result)
		}
	})
}
