package answer

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/view"
)

const nodeA = "11111111-1111-4111-8111-111111111111"

// shelf is a rack's memory with one node, and a conductor whose works are in the way of all questions.
type shelf struct {
	mu       sync.Mutex
	node     *node.Document
	work     *view.Work
	observed []*hardware.Observation
	// confirming, if set, is what happens while the bus is asked for the lease.
	confirming func()
	lost       error // of the lease
}

func newShelf() *shelf {
	return &shelf{node: &node.Document{UUID: nodeA, Driver: "fake-hardware"}}
}

func (s *shelf) Node(id string) *node.Document {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node.UUID != id {
		return nil
	}
	return s.node
}

func (s *shelf) NodeByMAC(string) *node.Document { return nil }

func (s *shelf) Work(string) *view.Work { s.mu.Lock(); defer s.mu.Unlock(); return s.work }

// put changes the node's document.
func (s *shelf) put(n *node.Document) { s.mu.Lock(); defer s.mu.Unlock(); s.node = n }

// busy gives the node open work of another rackd.
func (s *shelf) busy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work = &view.Work{Doc: work.Document{ID: "other", Node: nodeA, Verb: work.Deploy, Owner: "z", Epoch: 1}}
}

func (s *shelf) Confirm() error {
	if s.confirming != nil {
		s.confirming()
	}
	return s.lost
}

func (*shelf) Open(n *node.Document) (*node.Document, error) { copied := *n; return &copied, nil }

func (*shelf) Aside(string) (driver.Fence, func(), bool) { return nil, nil, false }

func (*shelf) CheckFlow(ask.Flow, *node.Document, *driver.Hardware) error { return nil }

func (*shelf) CheckChange(*work.Change, *node.Document, *driver.Hardware) error { return nil }

func (*shelf) SettingBoot(*node.Document, string, bool) func(bool) { return func(bool) {} }

func (s *shelf) TellHardware(_ context.Context, _ *node.Document, o *hardware.Observation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observed = append(s.observed, o)
	return nil
}

// desk returns a desk of a rackd with fake hardware; change replaces interfaces of that.
func (s *shelf) desk(t *testing.T, change func(*driver.Type)) *Desk {
	t.Helper()
	hw := fake.New(fake.Options{}).Type()
	if change != nil {
		change(&hw)
	}
	reg, err := driver.NewRegistry(hw)
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Name: "a", Documents: s, Members: s, Hardware: reg, Conductor: s})
}

// A question about a node waits a little for the change that its asker knows of.
func TestQuestionAboutTheNewestChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		changed := s.node.Revision + 1
		d := s.desk(t, nil)
		q := ask.Request{Method: ask.Validate, Node: nodeA, NodeRevision: changed}
		if reply := d.Answer(t.Context(), q); reply.Error == nil || reply.Error.Status != http.StatusServiceUnavailable || !strings.Contains(reply.Error.Message, "newest change of node "+nodeA) {
			t.Errorf("a rackd that has not heard: %+v", reply)
		}
		time.AfterFunc(time.Second, func() {
			n := *s.Node(nodeA)
			n.Revision = changed
			s.put(&n)
		})
		began := time.Now()
		if reply := d.Answer(t.Context(), q); reply.Error != nil || time.Since(began) > 1100*time.Millisecond {
			t.Errorf("after the change came: %+v, %v", reply, time.Since(began))
		}
		if reply := d.Answer(t.Context(), ask.Request{Method: ask.Validate, Node: "nobody"}); reply.Error == nil || !strings.Contains(reply.Error.Message, "heard of node nobody") {
			t.Errorf("an unknown node: %+v", reply)
		}
	})
}

// Work comes while a request waits for the bus: the node is locked, as it would have been a moment later, and nothing
// was sent. Without a lease nothing is sent either.
func TestWorkThatComesBeforeTheFirstWrite(t *testing.T) {
	set := ask.Request{Method: ask.SetBootDevice, Node: nodeA, Args: json.RawMessage(`{"boot_device":"disk"}`)}
	device := func(d *Desk) string {
		return string(d.Answer(t.Context(), ask.Request{Method: ask.GetBootDevice, Node: nodeA}).Body)
	}
	s := newShelf()
	d := s.desk(t, nil)
	before := device(d)
	s.confirming = s.busy
	if a := d.Answer(t.Context(), set); a.Error == nil || a.Error.Status != 409 || !a.Error.Locked || device(d) != before {
		t.Errorf("answered %+v, and the machine boots from %s", a.Error, device(d))
	}
	s.confirming, s.work, s.lost = nil, nil, errors.New("the bus has another lease")
	if a := d.Answer(t.Context(), set); a.Error == nil || a.Error.Status != 409 || a.Error.Locked || device(d) != before {
		t.Errorf("without a lease: answered %+v, and the machine boots from %s", a.Error, device(d))
	}
	s.lost = nil
	if a := d.Answer(t.Context(), set); a.Error != nil || device(d) == before {
		t.Errorf("with a lease: answered %+v, and the machine boots from %s", a.Error, device(d))
	}
}

// What fake hardware was told at one rackd holds at another, through the node's document.
func TestKeptComesBackThroughTheDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		a, b := s.desk(t, nil), s.desk(t, nil)
		put := func(d *Desk, m ask.Method, args any) ask.Reply {
			raw, err := json.Marshal(args)
			if err != nil {
				t.Fatal(err)
			}
			return d.Answer(context.Background(), ask.Request{Method: m, Node: nodeA, Args: raw})
		}
		if r := put(a, ask.SetIndicator, ask.Indicator{Component: "system", Name: "led", State: "blinking"}); r.Error != nil {
			t.Fatal(r.Error)
		}
		if len(s.observed) != 1 {
			t.Fatalf("reported %+v", s.observed)
		}
		next := *s.Node(nodeA)
		next.Kept = s.observed[0].Kept // as central's relay does
		s.put(&next)
		if r := put(b, ask.GetIndicator, ask.Indicator{Component: "system", Name: "led"}); r.Error != nil || !strings.Contains(string(r.Body), `"state":"blinking"`) {
			t.Errorf("at the other rackd: %s, %v", r.Body, r.Error)
		}
	})
}

func TestVendorCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		d := s.desk(t, nil)
		call := func(method, verb string, data map[string]any) ask.Reply {
			raw, err := json.Marshal(ask.VendorCall{Method: method, HTTPMethod: verb, Data: data})
			if err != nil {
				t.Fatal(err)
			}
			return d.Answer(context.Background(), ask.Request{Method: ask.CallVendor, Node: nodeA, Args: raw})
		}
		bar := map[string]any{"bar": "meow"}
		if r := call("third_method_sync", "POST", bar); r.Error != nil || !strings.Contains(string(r.Body), `"return":true`) {
			t.Errorf("sync: %s, %v", r.Body, r.Error)
		}
		if r := call("second_method", "POST", bar); r.Error != nil || !strings.Contains(string(r.Body), `"work":true`) {
			t.Errorf("async: %s, %v", r.Body, r.Error)
		}
		for _, bad := range []ask.Reply{call("second_method", "POST", nil), call("second_method", "GET", bar), call("no_method", "POST", bar)} {
			if bad.Error == nil || bad.Error.Status != 400 {
				t.Errorf("answered %s, %v, want 400", bad.Body, bad.Error)
			}
		}
		s.busy()
		if r := call("third_method_sync", "POST", bar); r.Error == nil || r.Error.Status != 409 {
			t.Errorf("beside work: %s, %v, want 409", r.Body, r.Error)
		}
		if r := call("fourth_method_shared_lock", "POST", bar); r.Error != nil || slices.Contains([]string{"", "null"}, string(r.Body)) {
			t.Errorf("a method that may go beside work: %s, %v", r.Body, r.Error)
		}
	})
}

// vendor is a vendor interface with one method.
type vendor struct {
	driver.Vendor
	method driver.VendorMethod
}

func (vendor) Properties() map[string]string          { return nil }
func (vendor) Validate(*node.Document) error          { return nil }
func (v vendor) VendorMethods() []driver.VendorMethod { return []driver.VendorMethod{v.method} }

// A method of which it is not known whether it was done is answered with 504.
func TestVendorCallInDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		cause  error
		status int
	}{"the write's outcome is unknown": {driver.ErrUnknown, 504}, "the BMC cannot be reached": {driver.ErrUnreachable, 503}, "it is refused": {driver.ErrDenied, 500}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				method := driver.VendorMethod{Method: driver.Method{Name: "poke", HTTPMethods: []string{"POST"}},
					Call: func(context.Context, driver.Fence, *node.Document, map[string]any) (any, error) { return nil, c.cause }}
				d := s.desk(t, func(hw *driver.Type) {
					hw.Interfaces["vendor"] = []driver.Named{{Name: "v", Impl: vendor{method: method}}}
				})
				r := d.Answer(t.Context(), ask.Request{Method: ask.CallVendor, Node: nodeA, Args: json.RawMessage(`{"method":"poke","http_method":"POST"}`)})
				if r.Error == nil || r.Error.Status != c.status || strings.Contains(r.Error.Message, "look at the machine") != (c.status == 504) {
					t.Errorf("answered %s, %+v", r.Body, r.Error)
				}
			})
		})
	}
}

// asking is a management interface that notes whether a call may log in for its request.
type asking struct {
	driver.Management
	try **driver.Try
}

func (a asking) BootDevice(ctx context.Context, n *node.Document) (ask.BootDevice, error) {
	*a.try = driver.TryOf(ctx)
	return a.Management.BootDevice(ctx, n)
}

// Each question has a login of its own with credentials that the BMC refuses: a person has asked it.
func TestAQuestionMayLogIn(t *testing.T) {
	var try *driver.Try
	d := newShelf().desk(t, func(typ *driver.Type) {
		typ.Interfaces["management"] = []driver.Named{{Name: "fake", Impl: asking{typ.Interfaces["management"][0].Impl.(driver.Management), &try}}}
	})
	var before *driver.Try
	for range 2 {
		if a := d.Answer(t.Context(), ask.Request{Method: ask.GetBootDevice, Node: nodeA}); a.Error != nil || try == nil || try == before {
			t.Errorf("answered %+v, with the login %v, before %v", a.Error, try, before)
		}
		before = try
	}
}
