package conductor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A step that waits for what another program is to bring waits on in maintenance: its time stands still as that of any other step.
func TestMaintenanceStopsTheWaitForAConfigDrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, got := newShelf(), ""
		oneNode(s)
		s.lostDrives = 1 << 30
		m := &machine{deploy: []driver.Step{{Interface: "deploy", Name: "write", Priority: 50, Kind: driver.Repeatable,
			Run: func(ctx context.Context, t *driver.Task) (_ driver.Outcome, err error) {
				got, err = t.ConfigDrive(ctx)
				return driver.Done(), err
			}}}}
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(c *Config) {
			c.BuildDrive = func(_ context.Context, input, _, _ string) (string, error) { return "built of " + input, nil }
		})
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{ConfigDrive: "drive"})
		time.Sleep(10 * time.Minute) // of 30
		synctest.Wait()
		s.maintain(true, "", 5*time.Hour)
		if d := s.Work(nodeA).Doc; !d.Open() {
			t.Fatalf("in maintenance: %q, %+v", d.State, d.Result)
		}
		s.maintain(false, "", 15*time.Minute)
		if d := s.Work(nodeA).Doc; !d.Open() {
			t.Fatalf("15 of 20 minutes afterwards: %q, %+v", d.State, d.Result)
		}
		s.mu.Lock()
		s.lostDrives = 0
		s.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK || got != "built of drive" {
			t.Errorf("the drive is %q, and the deploy ended as %+v", got, d.Result)
		}
	})
}

// The time of a step that does not come back for long, such as the fetch of an image, stands still too. What must not be
// repeated fails as ever, and so does what is late outside of maintenance.
func TestMaintenanceStopsTheClockOfAnAttempt(t *testing.T) {
	for _, c := range []struct {
		kind  driver.StepKind
		takes time.Duration
		well  bool
	}{{driver.Repeatable, 45 * time.Minute, true}, {driver.Repeatable, 2 * time.Hour, false}, {driver.Neither, 45 * time.Minute, false}} {
		synctest.Test(t, func(t *testing.T) {
			s := newShelf()
			oneNode(s)
			m := &machine{deploy: []driver.Step{{Interface: "deploy", Name: "fetch", Priority: 50, Kind: c.kind,
				Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
					return driver.Done(), driver.Pause(ctx, time.Until(t.Entered.Add(c.takes)))
				}}}}
			_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
			defer kill()
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
			time.Sleep(10 * time.Minute) // of 30
			synctest.Wait()
			s.maintain(true, "", 30*time.Minute)
			if d := s.Work(nodeA).Doc; d.Open() != (c.kind != driver.Neither) {
				t.Fatalf("%v, in maintenance: %q, %+v", c.kind, d.State, d.Result)
			}
			s.maintain(false, "", time.Hour)
			if d := s.Work(nodeA).Doc; d.Open() || d.Result.OK != c.well {
				t.Errorf("%v of %s, after the maintenance: %q, %+v", c.kind, c.takes, d.State, d.Result)
			}
		})
	}
}

// A flow that is parked between two steps runs no step, whichever rackd tells of it and whatever it does beside: an abort
// would else wait for a step that has ended.
func TestAParkedFlowTellsOfNoRunningStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOff, deploy: slowFirst(&log)}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		_, _, kill := conductorOn(t, s, "a", owner, m, nil)
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s.maintain(true, "", time.Hour)
		last := func(when string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if e := s.events[len(s.events)-1]; e.StepInfo != nil {
				t.Errorf("%s: %s tells of the step %s", when, e.Kind, e.StepInfo)
			}
		}
		last("parked")
		kill()
		owner.Store("b")
		_, _, kill = conductorOn(t, s, "b", owner, m, nil)
		defer kill()
		last("taken over")
		s.errand(nodeA, work.Args{PowerTarget: string(driver.PowerOn)})
		last("beside it")
	})
}

// Central writes a node's document before that of the work that a request beside the flow makes. The way between may break in
// between, for long: the flow that runs at the site waits, and does not fail.
func TestSecretsWaitForTheWorkThatIsOnItsWay(t *testing.T) {
	for name, c := range map[string]struct {
		away  time.Duration
		drive string
		well  bool
	}{"arguments": {20 * time.Minute, "", true}, "a config drive": {20 * time.Minute, "drive", true}, "for too long": {3 * time.Hour, "", false}, "a config drive, for too long": {3 * time.Hour, "drive", false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				oneNode(s)
				var got []map[string]any
				var drive string
				step := taking(&got)
				if c.drive != "" {
					step = driver.Step{Interface: "deploy", Name: "a", Priority: 50, Kind: driver.Repeatable, Retries: 4, Pause: 5 * time.Second,
						Run: func(ctx context.Context, t *driver.Task) (_ driver.Outcome, err error) {
							drive, err = t.ConfigDrive(ctx)
							return driver.Done(), err
						}}
				}
				wait := slowly("w", time.Minute, new([]string))
				wait.Priority, wait.NoRamdisk, wait.In = 60, true, driver.InClean
				m := &machine{clean: []driver.Step{wait, step}, deploy: []driver.Step{wait, step}}
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(c *Config) {
					c.BuildDrive = func(_ context.Context, input, _, _ string) (string, error) { return input, nil }
				})
				defer kill()
				if c.drive != "" {
					s.request(nodeA, work.Deploy, provision.Deploying, work.Args{ConfigDrive: c.drive})
				} else {
					s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true, Steps: []work.Step{{Interface: "deploy", Step: "w"}, withSecret(t, "work-1")}})
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				n := *s.Node(nodeA)
				n.Generation++
				s.put(&n)
				s.tell(nodeA)
				time.Sleep(c.away)
				synctest.Wait()
				if d := s.Work(nodeA).Doc; d.Open() != c.well {
					t.Fatalf("while the work is on its way: %q, %+v", d.State, d.Result)
				}
				if !c.well {
					return
				}
				s.errand(nodeA, work.Args{PowerTarget: string(driver.PowerOn)})
				time.Sleep(time.Minute)
				synctest.Wait()
				if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK || c.drive == "" && len(got) != 1 || drive != c.drive {
					t.Errorf("it ended as %+v, %v, %q", d.Result, got, drive)
				}
			})
		})
	}
}

// Until that work has come, the machine of the flow that runs boots the ramdisk, and its agent is told its node. A state in which
// no flow runs ends that.
func TestARamdiskBootsWhileAWorkIsOnItsWay(t *testing.T) {
	for accepted, boots := range map[provision.State]bool{provision.DeployWait: true, provision.Deploying: true, provision.DeployHold: true, provision.DeployFail: false, provision.Deleting: false} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{power: driver.PowerOff, deploy: []driver.Step{waitForAgent(nil)}}
			s := newShelf()
			oneNode(s)
			c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
			defer kill()
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
			time.Sleep(10 * time.Second)
			synctest.Wait()
			n := *s.Node(nodeA)
			n.Generation++
			n.State = accepted
			s.put(&n)
			s.tell(nodeA)
			time.Sleep(time.Second)
			synctest.Wait()
			o, ok := c.BootByMAC(n.Ports[0].Address)
			if o = c.Asked(o); !ok || o.Order.Boots() != boots {
				t.Errorf("accepted as %q: the machine is told %+v", accepted, o.Order)
			}
			if _, err := c.LookupAgent(lookupOf(c)); (err == nil) != boots {
				t.Errorf("accepted as %q: the lookup is answered with %v", accepted, err)
			}
		})
	}
}

// A parked node that is deleted is gone here before its work may be: that does not go on meanwhile.
func TestAParkedFlowOfADeletedNodeDoesNotGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff, deploy: slowFirst(new([]string))}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s.maintain(true, "", time.Hour)
		s.mu.Lock()
		delete(s.nodes, nodeA)
		s.mu.Unlock()
		s.tell(nodeA)
		time.Sleep(time.Hour)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; !d.Open() || len(m.writes) != 0 {
			t.Errorf("the work is %q, step %s, and the machine was written to: %v", d.State, d.Checkpoint.Step, m.writes)
		}
	})
}

// A central from before decision 76 does not say that a request was made in maintenance: what it asks for in maintenance
// is done, as it was then. What a newer one has asked for before the maintenance parks.
func TestRequestsOfAnOlderCentralInMaintenance(t *testing.T) {
	for verb, entry := range map[work.Verb]provision.State{work.Manage: provision.Verifying, work.Adopt: provision.Adopting, work.Delete: provision.Deleting} {
		for _, older := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				m := &machine{power: driver.PowerOff, teardown: []driver.Step{slowly("down", time.Second, &log)}}
				s := newShelf()
				oneNode(s)
				s.nodes[nodeA].Maintenance = true
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(c *Config) { c.AutomatedClean = false })
				defer kill()
				args := work.Args{From: provision.CleanFail}
				if older {
					args.From = ""
				}
				s.request(nodeA, verb, entry, args)
				time.Sleep(time.Hour)
				synctest.Wait()
				if d := s.Work(nodeA).Doc; d.Open() == older || older && !d.Result.OK {
					t.Errorf("%s, of an older central %t: state %q, open %t, %+v, %+v", verb, older, d.State, d.Open(), d.Checkpoint.Parked, d.Result)
				}
			})
		}
	}
}
