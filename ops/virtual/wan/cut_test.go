package wan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/sites/sitetest"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/wan"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// fleet is a fleet and its operator.
type fleet struct {
	*wan.Fleet
	*operator.Operator
	t *testing.T
}

func start(t *testing.T) *fleet {
	t.Helper()
	f := wan.Start(t, wan.Options{Sites: map[string]int{"east": 2, "west": 1}})
	o, err := operator.New(f.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return &fleet{f, o, t}
}

// node makes a node of a site available and gives it an image.
func (f *fleet) node(site, name string, info map[string]any) string {
	f.t.Helper()
	id, err := f.Enrol(f.t.Context(), operator.Machine{Name: name, Driver: "fake-hardware", DriverInfo: info, Group: site})
	if err == nil {
		err = f.MakeAvailable(f.t.Context(), id)
	}
	if err == nil {
		err = f.SetImage(f.t.Context(), id, operator.Image{URL: "http://example.org/i.raw", SHA256: "00", DiskFormat: "raw"})
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

func (f *fleet) ask(id, verb string) {
	f.t.Helper()
	began := time.Now()
	if err := f.Ask(f.t.Context(), id, verb, nil); err != nil {
		f.t.Fatal(err)
	}
	// It does not wait for the site, for which central has 5 s. A host with slow disks may take a second to commit.
	if d := time.Since(began); d > 3*time.Second {
		f.t.Errorf("%s of node %s was accepted after %s", verb, id, d)
	}
}

func (f *fleet) wait(id string, within time.Duration, want provision.State) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), within)
	defer cancel()
	if _, err := f.Wait(ctx, id, want); err != nil {
		f.t.Fatal(err)
	}
}

// get returns what a path of the API, or of observation, answers.
func (f *fleet) get(path string) (status int, body string) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.Endpoint+path, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.95")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// dead returns the conductors that the API shows as dead.
func (f *fleet) dead() string {
	f.t.Helper()
	_, body := f.get("/v1/conductors")
	var list struct {
		Conductors []struct {
			Hostname string
			Alive    bool
		}
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		f.t.Fatalf("%v: %s", err, body)
	}
	var names []string
	for _, c := range list.Conductors {
		if !c.Alive {
			names = append(names, c.Hostname)
		}
	}
	return strings.Join(names, " ")
}

// until waits until a condition holds and returns how long that took.
func (f *fleet) until(what string, within time.Duration, holds func() bool) time.Duration {
	f.t.Helper()
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Since(began) > within {
			f.t.Fatalf("not within %s: %s", within, what)
		}
		<-tick.C
	}
	return time.Since(began)
}

// A site behind a link that is down goes on with its work and takes none; central
// accepts requests for it, says since when it is away, and serves the others. When
// the link is back all goes on by itself, once and in order.
func TestLinkDown(t *testing.T) {
	for name, breakLink := range map[string]func(*sitetest.Link){"refused": (*sitetest.Link).Cut, "silent": (*sitetest.Link).Silence} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			busy := f.node("east", "busy", map[string]any{"fake_write_image_delay": 3})
			idle := f.node("east", "idle", nil)
			other := f.node("west", "other", nil)
			f.ask(busy, "active")
			f.until("the deploy runs at the site", 10*time.Second, func() bool {
				n, err := f.Show(t.Context(), busy)
				return err == nil && n.DeployStep["step"] == "write_image" && n.ProvisionState == string(provision.DeployWait)
			})
			link := f.Sites["east"].Link
			breakLink(link)
			took := f.until("east's conductors are shown as dead", 10*time.Second, func() bool { return f.dead() == "east-0 east-1" })
			t.Logf("known after %s", took.Round(10*time.Millisecond))

			f.ask(idle, "active") // accepted, and waits
			for _, path := range []string{"/validate", "/management/boot_device"} {
				if status, body := f.get("/v1/nodes/" + idle + path); status != http.StatusServiceUnavailable || !strings.Contains(body, "has been unreachable since 2") {
					t.Errorf("%s: %d %s", path, status, body)
				}
			}
			if status, body := f.get("/readyz"); status != http.StatusOK || !strings.Contains(body, `site "east": away since 2`) || !strings.Contains(body, `site "west": ok`) {
				t.Errorf("/readyz: %d %s", status, body)
			}
			if _, body := f.get("/metrics"); !strings.Contains(body, `ironyard_central_site_connected{site="east"} 0`) ||
				strings.Contains(body, `ironyard_central_site_unreachable_seconds{site="east"} 0`) {
				t.Error("the metrics do not show that east is away")
			}
			f.ask(other, "active")
			f.wait(other, 20*time.Second, provision.Active)
			f.siteEnds(busy)
			if n, err := f.Show(t.Context(), busy); err != nil || n.ProvisionState != string(provision.DeployWait) {
				t.Errorf("what the site did crossed a link that is down: %v, %v", n.ProvisionState, err)
			}

			link.Mend()
			took = f.until("east's conductors are shown as alive", 10*time.Second, func() bool { return f.dead() == "" })
			f.wait(busy, 10*time.Second, provision.Active)
			f.wait(idle, 20*time.Second, provision.Active)
			t.Logf("well again after %s", took.Round(10*time.Millisecond))
			f.once(busy)
			f.once(idle)
		})
	}
}

// siteEnds waits until the site has ended a node's work, whether central knows or not.
func (f *fleet) siteEnds(id string) {
	f.t.Helper()
	f.until("the site ends the work", 20*time.Second, func() bool {
		events := f.events(id)
		return len(events) > 0 && events[len(events)-1].Kind == work.WorkEnded && events[len(events)-1].Verb == work.Deploy
	})
}

// events returns what the site says of a node's work, in order.
func (f *fleet) events(id string) []work.Event {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
	defer cancel()
	stream, err := f.Sites["east"].Bus.JS.Stream(ctx, "EVENTS")
	if err != nil {
		f.t.Fatal(err)
	}
	info, err := stream.Info(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		f.t.Fatal(err)
	}
	var list []work.Event
	for seq := uint64(0); seq < info.State.LastSeq; {
		m, err := consumer.Next(jetstream.FetchMaxWait(5 * time.Second))
		if err != nil {
			f.t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			f.t.Fatal(err)
		}
		seq = meta.Sequence.Stream
		var e work.Event
		if err := json.Unmarshal(m.Data(), &e); err != nil {
			f.t.Fatal(err)
		}
		if e.Node == id && e.Work != "" {
			list = append(list, e)
		}
	}
	return list
}

// once holds that a node's works have each been done once, by one owner, and that
// central's history has each event once, in the order in which the site stored them.
func (f *fleet) once(id string) {
	f.t.Helper()
	ended, epochs := map[string]int{}, map[string]uint64{}
	var want []string
	for _, e := range f.events(id) {
		// Which epoch it is depends on whether the work before it was still on the bus.
		if first, known := epochs[e.Work]; known && e.Epoch != first {
			f.t.Errorf("node %s: an event of epoch %d in work that began under %d: %+v", id, e.Epoch, first, e)
		}
		epochs[e.Work] = e.Epoch
		for _, l := range e.Lines() {
			want = append(want, fmt.Sprintf("%s at %s", e.Work, l.Time.UTC().Truncate(time.Microsecond)))
		}
		switch e.Kind {
		case work.WorkEnded:
			ended[e.Work]++
		case work.StateChanged:
		default:
			continue
		}
		want = append(want, fmt.Sprintf("%s at %s", e.Work, e.Time.UTC().Truncate(time.Microsecond)))
	}
	for id, n := range ended {
		if n != 1 {
			f.t.Errorf("work %s ended %d times", id, n)
		}
	}
	lines, err := f.Store.History(f.t.Context(), store.HistoryQuery{Node: id})
	if err != nil {
		f.t.Fatal(err)
	}
	var got []string
	for _, h := range lines {
		if h.User == "" && !strings.Contains(h.Event, "accepted") {
			got = append(got, fmt.Sprintf("%s at %s", h.Work, h.CreatedAt))
		}
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		f.t.Errorf("node %s: history\n%s\nthe site's events\n%s", id, a, b)
	}
}
