package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/failpoint"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/credential"
)

const (
	oldPassword = "0ld-pass"
	newPassword = "n3w-pass"
	passwordOf  = "ilo_password"
	asksFor     = "ilo_change_password"
)

// locked is a BMC that has a password, and locks its account at the third refused login in a row.
type locked struct {
	mu       sync.Mutex
	password string
	told     int
	refused  int // in a row
	worst    int
	// lose, if set, says of the n-th order whether it is carried out and whether its answer is lost.
	lose func(n int) (done, lost bool)
}

func (b *locked) login(n *node.Document) error {
	if n.DriverString(passwordOf) == b.password {
		b.refused = 0
		return nil
	}
	b.refused++
	b.worst = max(b.worst, b.refused)
	return fmt.Errorf("login: %w", driver.ErrDenied)
}

func (b *locked) change() credential.Change {
	return credential.Change{Field: passwordOf, Asks: asksFor,
		Tell: func(_ context.Context, f driver.Fence, n *node.Document, password string) error {
			if err := f.Check(); err != nil {
				return err
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if err := b.login(n); err != nil {
				return err
			}
			b.told++
			done, lost := true, false
			if b.lose != nil {
				done, lost = b.lose(b.told)
			}
			if done {
				b.password = password
			}
			if lost {
				return fmt.Errorf("no answer: %w", driver.ErrUnknown)
			}
			return nil
		},
		Accepts: func(_ context.Context, n *node.Document) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.login(n)
		}}
}

// steps are one that gives the BMC a new password, and one that logs in.
func (b *locked) steps(log *[]string) []driver.Step {
	return []driver.Step{
		{Interface: "deploy", Name: "reset_credential", Priority: 90, Kind: driver.Reattachable, Retries: 4, Pause: 10 * time.Second,
			Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				return b.change().Run(ctx, t, newPassword)
			}},
		{Interface: "deploy", Name: "use", Priority: 80, Kind: driver.Repeatable, Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
			*log = append(*log, "used "+t.Node.DriverString(passwordOf))
			return driver.Done(), b.change().Accepts(context.Background(), t.Node)
		}}}
}

// sealedNode is the node with a password that is sealed as central does.
func sealedNode(s *shelf, info map[string]any) {
	oneNode(s)
	n := *s.nodes[nodeA]
	n.DriverInfo = testKey.SealFields(seal.Label{Kind: seal.DriverInfo, Of: nodeA}, info)
	s.nodes[nodeA] = &n
}

// central writes into the node's document what racks tell of secrets, as ingest and relay do. It returns how often it was told; mu of
// the shelf guards that.
func (s *shelf) central(t *testing.T) *int {
	told := new(int)
	s.onPublish = func(e work.Event) {
		for _, secret := range e.Secrets {
			*told++
			v, err := secret.Open(testKey, e.Node)
			if err != nil || e.Work == "" {
				t.Errorf("told of a secret that does not open (%v), by work %q", err, e.Work)
				continue
			}
			n := *s.nodes[e.Node]
			open, err := testKey.OpenFields(seal.Label{Kind: seal.DriverInfo, Of: e.Node}, n.DriverInfo)
			if err != nil || open[secret.Field] != v.Was && open[secret.Field] != v.New {
				t.Errorf("told that %q takes the place of %q, which is %q (%v)", v.New, v.Was, open[secret.Field], err)
				continue
			}
			open[secret.Field] = v.New
			for _, field := range v.Clears {
				delete(open, field)
			}
			n.DriverInfo = testKey.SealFields(seal.Label{Kind: seal.DriverInfo, Of: e.Node}, open)
			s.nodes[e.Node] = &n
		}
	}
	return told
}

// info is driver_info as the newest document has it.
func (s *shelf) info(t *testing.T) map[string]any {
	t.Helper()
	open, err := testKey.OpenFields(seal.Label{Kind: seal.DriverInfo, Of: nodeA}, s.Node(nodeA).DriverInfo)
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// clear fails if a secret lies anywhere on the bus in the open.
func (s *shelf) clear(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := json.Marshal(map[string]any{"works": s.works, "events": s.events})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{oldPassword, newPassword} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%q lies on the bus: %s", secret, text)
		}
	}
}

// At each place where the owner may die, central, the BMC and the flow's later steps end with one password, and the account is not locked.
func TestNewPasswordSurvivesDeath(t *testing.T) {
	for _, place := range []string{"", "conductor.secret", "conductor.secret_kept", "conductor.secret_sure", "conductor.secret_told", "conductor.ran", "conductor.end"} {
		t.Run(place, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, log := &locked{password: oldPassword}, []string(nil)
				m := &machine{power: driver.PowerOff, deploy: b.steps(&log)}
				s := newShelf()
				sealedNode(s, map[string]any{passwordOf: oldPassword, asksFor: newPassword, "ilo_address": "192.0.2.1"})
				told := s.central(t)
				owner, died, stuck := owned("a"), make(chan struct{}, 1), make(chan struct{})
				if place != "" {
					var once atomic.Bool
					restore, err := failpoint.Set(place, func(at string) {
						if strings.HasSuffix(at, "reset_credential") && once.CompareAndSwap(false, true) {
							died <- struct{}{}
							<-stuck
						}
					})
					if err != nil {
						t.Fatal(err)
					}
					defer restore()
				}
				_, held, killA := conductorOn(t, s, "a", owner, m, nil)
				c, _, killB := conductorOn(t, s, "b", owner, m, nil)
				defer killB()
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
				for range 600 {
					time.Sleep(time.Second)
					synctest.Wait()
					select {
					case <-died:
						held.held.Store(false)
						owner.Store("b")
						c.RingChanged()
					default:
					}
					if !s.Work(nodeA).Doc.Open() {
						break
					}
				}
				close(stuck)
				killA()
				d, info := s.Work(nodeA).Doc, s.info(t)
				if d.Open() || !d.Result.OK || len(d.Checkpoint.Secrets) > 0 {
					t.Errorf("the work: %+v, secrets left %d", d.Result, len(d.Checkpoint.Secrets))
				}
				if b.password != newPassword || !maps.Equal(info, map[string]any{passwordOf: newPassword, "ilo_address": "192.0.2.1"}) || *told == 0 {
					t.Errorf("the BMC has %q, and driver_info is %v, told %d times", b.password, info, *told)
				}
				if b.worst > 1 || b.told > 2 {
					t.Errorf("%d logins in a row were refused; it was told %d times", b.worst, b.told)
				}
				if len(log) == 0 || log[len(log)-1] != "used "+newPassword {
					t.Errorf("the next step: %v", log)
				}
				s.clear(t)
			})
		})
	}
}

// An order whose answer is lost may have been carried out or not. Both passwords are tried, the new one first.
func TestNewPasswordWithALostAnswer(t *testing.T) {
	for _, done := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b, log := &locked{password: oldPassword}, []string(nil)
			b.lose = func(n int) (bool, bool) { return done || n > 1, n == 1 }
			s := newShelf()
			sealedNode(s, map[string]any{passwordOf: oldPassword})
			s.central(t)
			_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{power: driver.PowerOff, deploy: b.steps(&log)}, nil)
			defer kill()
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			want := 2
			if done {
				want = 1
			}
			if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK || b.told != want || s.info(t)[passwordOf] != newPassword || b.worst > 1 {
				t.Errorf("carried out %t: %+v, told %d times, driver_info %v, refused %d in a row", done, d.Result, b.told, s.info(t), b.worst)
			}
			s.clear(t)
		})
	}
}

// While central does not write the password, the step waits, and tells it again. A request that changes driver_info meanwhile is not
// overwritten.
func TestNewPasswordWaitsForCentral(t *testing.T) {
	for _, meanwhile := range []string{"", "an0ther-pass"} {
		synctest.Test(t, func(t *testing.T) {
			b, log := &locked{password: oldPassword}, []string(nil)
			s := newShelf()
			sealedNode(s, map[string]any{passwordOf: oldPassword})
			told := 0
			s.onPublish = func(e work.Event) { told += len(e.Secrets) }
			_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{power: driver.PowerOff, deploy: b.steps(&log)}, func(c *Config) {
				c.Deadlines = map[provision.State]time.Duration{provision.Deploying: time.Hour, provision.DeployWait: time.Hour}
			})
			defer kill()
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
			time.Sleep(11 * time.Minute)
			synctest.Wait()
			s.mu.Lock()
			if told != 3 || !s.works[nodeA].Doc.Open() || len(log) > 0 {
				t.Errorf("told %d times in eleven minutes, want 3; steps %v", told, log)
			}
			s.mu.Unlock()
			if meanwhile != "" {
				n := *s.Node(nodeA)
				n.DriverInfo = testKey.SealFields(seal.Label{Kind: seal.DriverInfo, Of: nodeA}, map[string]any{passwordOf: meanwhile})
				s.put(&n)
			} else {
				s.mu.Lock()
				s.central(t)
				s.mu.Unlock()
			}
			time.Sleep(6 * time.Minute)
			synctest.Wait()
			d := s.Work(nodeA).Doc
			switch {
			case d.Open():
				t.Errorf("the work goes on: %+v", d.Checkpoint)
			case meanwhile == "" && (!d.Result.OK || s.info(t)[passwordOf] != newPassword):
				t.Errorf("%+v, driver_info %v", d.Result, s.info(t))
			case meanwhile != "" && (d.Result.OK || !strings.Contains(d.Result.Error, "a request has changed driver_info") || s.info(t)[passwordOf] != meanwhile):
				t.Errorf("%+v, driver_info %v", d.Result, s.info(t))
			}
			s.clear(t)
		})
	}
}

// A BMC that refuses the password, or both, ends the step; driver_info stays, and nothing is left in the checkpoint.
func TestNewPasswordRefused(t *testing.T) {
	for says, spoil := range map[string]func(*locked, *credential.Change){
		"too short": func(_ *locked, c *credential.Change) {
			c.Tell = func(context.Context, driver.Fence, *node.Document, string) error { return errors.New("too short") }
		},
		"neither the password": func(b *locked, _ *credential.Change) { b.password = "someb0dys" },
		"driver_info ilo_password nor the new one": func(b *locked, _ *credential.Change) { // another program has set one when the answer was lost
			b.lose = func(int) (bool, bool) { b.password = "someb0dys"; return false, true }
		},
		"may not change passwords": func(_ *locked, c *credential.Change) {
			c.Tell = func(context.Context, driver.Fence, *node.Document, string) error {
				return fmt.Errorf("may not change passwords: %w", driver.ErrDenied)
			}
		},
		"refuses each login with it: ": func(b *locked, _ *credential.Change) { b.lose = func(int) (bool, bool) { return false, false } },
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &locked{password: oldPassword}
			change := b.change()
			spoil(b, &change)
			step := driver.Step{Interface: "deploy", Name: "reset_credential", Priority: 90, Kind: driver.Reattachable, Retries: 4, Pause: 10 * time.Second,
				Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
					return change.Run(ctx, t, newPassword)
				}}
			s := newShelf()
			sealedNode(s, map[string]any{passwordOf: oldPassword})
			told := s.central(t)
			_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{power: driver.PowerOff, deploy: []driver.Step{step}}, nil)
			defer kill()
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			d := s.Work(nodeA).Doc
			if d.Open() || d.Result.OK || !strings.Contains(d.Result.Error, says) || *told > 0 || s.info(t)[passwordOf] != oldPassword {
				t.Errorf("%s: %+v, told %d times, driver_info %v", says, d.Result, *told, s.info(t))
			}
			s.clear(t)
		})
	}
}

// An undeploy that takes the place of a deploy in the middle of it finds out which password counts before it does anything else.
func TestUndeployGoesOnWithTheNewPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, log := &locked{password: oldPassword}, []string(nil)
		var answers atomic.Bool
		b.lose = func(int) (bool, bool) { return true, true }
		change := b.change()
		accepts := change.Accepts
		change.Accepts = func(ctx context.Context, n *node.Document) error {
			if !answers.Load() {
				return fmt.Errorf("the BMC is away: %w", driver.ErrUnreachable)
			}
			return accepts(ctx, n)
		}
		m := &machine{power: driver.PowerOff, deploy: b.steps(&log)}
		m.deploy[0].Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			out, err := change.Run(ctx, t, newPassword)
			if err != nil {
				return driver.Wait(10 * time.Second), nil // the BMC is looked for until it is back
			}
			return out, nil
		}
		m.teardown = []driver.Step{b.steps(&log)[1]}
		s := newShelf()
		sealedNode(s, map[string]any{passwordOf: oldPassword})
		s.central(t)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(time.Minute)
		synctest.Wait()
		old := s.Work(nodeA).Doc
		if len(old.Checkpoint.Secrets) != 1 || old.Checkpoint.Secrets[0].Sure || old.Checkpoint.BMC == nil {
			t.Fatalf("in the middle of it: %+v", old.Checkpoint)
		}
		s.supersede(nodeA, work.Delete, provision.Deleting)
		time.Sleep(time.Minute)
		answers.Store(true)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		d := s.Work(nodeA).Doc
		if d.Verb != work.Delete || d.Open() || !d.Result.OK || s.info(t)[passwordOf] != newPassword || b.worst > 1 {
			t.Errorf("%s: %+v, driver_info %v, refused %d in a row", d.Verb, d.Result, s.info(t), b.worst)
		}
		if len(log) == 0 || log[len(log)-1] != "used "+newPassword {
			t.Errorf("the undeploy's step: %v", log)
		}
	})
}
