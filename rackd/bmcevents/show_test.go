package bmcevents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// histories are those of nodes, and counts events.
type histories struct {
	mu    sync.Mutex
	of    map[string][]string
	count map[string]int
	away  bool
}

func newHistories() *histories {
	return &histories{of: map[string][]string{}, count: map[string]int{}}
}

func (h *histories) TellLog(_ context.Context, n *node.Document, _ *hardware.Observation, lines []work.Line) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away {
		return errors.New("the bus is away")
	}
	for _, l := range lines {
		h.of[n.UUID] = append(h.of[n.UUID], l.Phase+": "+l.Detail)
	}
	return nil
}

func (h *histories) BMCEventHeard(way, severity, result string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count[way+" "+severity+" "+result]++
}

// owned are nodes that this rackd has.
type owned struct {
	Nodes
	nodes map[string]*node.Document
	hw    *driver.Hardware
}

func (o owned) Owned(id string) (*node.Document, *driver.Hardware, error) {
	return o.nodes[id], o.hw, nil
}

// What a BMC streams is in the histories of the nodes that it may be of: a few lines at once, then one a minute.
// What was left out is counted.
func TestEventsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened []*wire
		h := newHistories()
		nodes := owned{nodes: map[string]*node.Document{"n1": nodeOf("n1", "chassis"), "n2": nodeOf("n2", "chassis")}}
		l := New(Config{Codes: noCodes{}, Nodes: nodes, History: h, Metrics: h, Log: slog.New(slog.DiscardHandler), Look: func(string, time.Duration) {}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		synctest.Wait()
		hw := hardwareOf(t, streamer{opened: &opened})
		turn := func() {
			t.Helper()
			for _, id := range []string{"n1", "n2", "n3"} { // n3 is another rackd's by now
				if err := l.Task().Do(t.Context(), nodeOf(id, "chassis"), hw); err != nil {
					t.Fatal(err)
				}
			}
		}
		turn()
		tell := func(events ...driver.BMCEvent) {
			opened[0].tells = events
			opened[0].events <- struct{}{}
			synctest.Wait()
		}
		tell(driver.BMCEvent{ID: "X.1.0.Fan", At: time.Unix(1, 0), Severity: hardware.Critical, Text: "Fan 3 failed"},
			driver.BMCEvent{Text: "of blade 2", Concerns: func(n *node.Document) bool { return n.UUID == "n2" }})
		want := "BMC event: Fan 3 failed (Critical, X.1.0.Fan, by the BMC's clock 1970-01-01T00:00:01Z)"
		if got := h.of["n1"]; len(got) != 1 || got[0] != want {
			t.Errorf("the history of n1 is %q", got)
		}
		if got := h.of["n2"]; len(got) != 2 || got[0] != want || got[1] != "BMC event: of blade 2" {
			t.Errorf("the history of n2 is %q", got)
		}
		if len(h.of["n3"]) != 0 || h.count["stream critical shown"] != 2 || h.count["stream unknown shown"] != 1 {
			t.Errorf("another rackd's node: %q; counted %v", h.of["n3"], h.count)
		}
		for i := range 600 { // a BMC that tells without end, for a minute
			tell(driver.BMCEvent{Text: fmt.Sprint("event ", i)})
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if got := len(h.of["n1"]); got < linesAtOnce || got > linesAtOnce+3 {
			t.Errorf("601 events in a minute are %d lines", got)
		}
		if h.count["stream unknown left_out"] < 2*(600-linesAtOnce-1) {
			t.Errorf("counted %v", h.count)
		}
		for range 3 {
			time.Sleep(time.Minute)
			turn()
		}
		synctest.Wait()
		last := h.of["n1"][len(h.of["n1"])-1]
		if !strings.Contains(last, "events of the BMC were left out here") {
			t.Errorf("what was left out is not told: %q", last)
		}
		for range 70 {
			time.Sleep(time.Minute)
			turn()
		}
		synctest.Wait()
		if len(l.shown) != 0 {
			t.Errorf("what is kept of quiet nodes: %v", l.shown)
		}
		h.away = true
		before := len(h.of["n1"])
		tell(driver.BMCEvent{Text: "lost", Severity: hardware.Warning})
		if len(h.of["n1"]) != before || h.count["stream warning failed"] != 2 {
			t.Errorf("without a bus: %q, %v", h.of["n1"][before:], h.count)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A BMC tells the same for half a day, and sends a post again whose answer it has missed. The history keeps its room for other lines.
func TestEventsThatComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened []*wire
		h := newHistories()
		nodes := owned{nodes: map[string]*node.Document{"n1": nodeOf("n1", "chassis")}}
		l := New(Config{Codes: noCodes{}, Nodes: nodes, History: h, Metrics: h, Log: slog.New(slog.DiscardHandler), Look: func(string, time.Duration) {}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		synctest.Wait()
		hw := hardwareOf(t, streamer{opened: &opened})
		const half = 12 * 60
		time.Sleep(30 * time.Second) // what was held back is told at a full minute, and the order of what comes then is chance
		for minute := range half {
			if err := l.Task().Do(t.Context(), nodeOf("n1", "chassis"), hw); err != nil {
				t.Fatal(err)
			}
			opened[0].tells = []driver.BMCEvent{{At: time.Unix(int64(minute), 0), Severity: hardware.Warning, Text: "Fan 3 is slow"}, {Severity: hardware.Warning, Text: "Fan 3 is slow"}}
			opened[0].events <- struct{}{}
			synctest.Wait()
			time.Sleep(time.Minute)
		}
		opened[0].tells = []driver.BMCEvent{{Severity: hardware.Critical, Text: "Fan 3 failed"}}
		opened[0].events <- struct{}{}
		synctest.Wait()
		got := h.of["n1"]
		if len(got) < 12 || len(got) > 30 {
			t.Errorf("half a day of the same event is %d lines: %q", len(got), got)
		}
		told := 0
		for _, line := range got {
			var n int
			if _, after, found := strings.Cut(line, "this came "); found {
				if _, err := fmt.Sscanf(after, "%d times more", &n); err != nil || !strings.Contains(line, "Fan 3 is slow (Warning") {
					t.Errorf("%q: %v", line, err)
				}
			} else {
				n = 1
			}
			told += n
		}
		if told < 2*half-2*60-2 || told > 2*half+1 { // those of the last hour are told once it is over
			t.Errorf("%d of %d events are told", told, 2*half)
		}
		if last := got[len(got)-1]; !strings.Contains(last, "Fan 3 failed") {
			t.Errorf("another event has no line: %q", last)
		}
		if n := len(l.shown["n1"].said); n > mostSame {
			t.Errorf("%d events are remembered", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// teller is a BMC that posts, whose posts are the text of an event.
type teller struct{ poster }

func (teller) PostedEvents(post []byte) []driver.BMCEvent {
	return []driver.BMCEvent{{Text: string(post)}}
}

// What is posted is shown as well, on one line and without secrets, whether this rackd has made the subscription or not. A caller without
// the code shows nothing.
func TestPostsAreShown(t *testing.T) {
	s := newSite(t)
	a := s.rackd(t, "a")
	h := newHistories()
	a.History, a.Metrics, a.ends = h, h, t.Context()
	hw := s.hw
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: power{hw.Power()}}},
		"management": {{Name: "m", Impl: teller{poster{hw.Management(), s}}}}, "boot": {{Name: "b", Impl: hw.Boot()}}, "deploy": {{Name: "d", Impl: hw.Deploy()}}}})
	if err == nil {
		s.hw, err = reg.Resolve(&node.Document{Driver: "t"})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.enrol("n1", "one/pass", "a")
	s.nodes["n1"].DriverInfo["redfish_password"] = "s3cret"
	s.nodes["n1"].DriverInfo["nested"] = map[string]any{"token": "s3cret-and-more", "password": "a"}
	post := func(code, body string, want int) {
		t.Helper()
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", Prefix+"n1/"+code, strings.NewReader(body)))
		if w.Code != want {
			t.Errorf("answered %d, want %d", w.Code, want)
		}
	}
	post("guess", "made up", http.StatusNotFound)
	if len(h.of) != 0 {
		t.Errorf("who has no code shows %q", h.of)
	}
	for _, subscribed := range []bool{false, true} {
		if subscribed {
			a.turn(t)
		}
		clear(h.of)
		clear(a.shown) // another rackd, which has shown nothing yet
		post("code-of-n1-one-pass", "a\nb\x1b[2J \u202e\xff s3cret-and-more s3cret posted to https://a"+Prefix+"n1/code-of-n1-one-pass, as asked", http.StatusNoContent)
		post("code-of-n1-one-pass", strings.Repeat("é", 1000), http.StatusNoContent)
		if got := h.of["n1"]; len(got) != 2 || got[0] != "BMC event: a b [2J ? ****** ****** posted to https://a"+Prefix+"****** as asked" || len(got[1]) > mostText+30 {
			t.Errorf("subscribed %t: shown %q", subscribed, got)
		}
	}
	if h.count["post unknown shown"] != 4 {
		t.Errorf("counted %v", h.count)
	}
}

// A BMC's event may quote a request that it was sent, each form of a secret in it. The history, which more people read than may see the
// secret, has none of them.
func TestNoFormOfASecretIsShown(t *testing.T) {
	n := &node.Document{UUID: "n1", DriverInfo: map[string]any{"redfish_password": `p@ss/w"ord1`}}
	for _, said := range []string{`p@ss/w"ord1`, "p%40ss%2Fw%22ord1", `{"Password":"p@ss\/w\"ord1"}`, "p@ss/w&quot;ord1", "cEBzcy93Im9yZDE="} {
		e := driver.BMCEvent{Text: "the request was refused: " + said + " as asked", ID: said}
		if got := lineOf(n, e, time.Now()).Detail; strings.Count(got, masked) != 2 || strings.Contains(got, "ord1") || !strings.Contains(got, "as asked") {
			t.Errorf("%s is shown as %q", said, got)
		}
	}
	const code = "c0dec0dec0dec0dec0dec0dec0dec0dec0dec0dec0d"
	e := driver.BMCEvent{Text: "loaded", ID: "http://192.0.2.1/media/01a213c3-2115-79f5-8a57-5b01991e6c1e/" + code + "/boot.iso"}
	if got := lineOf(n, e, time.Now()).Detail; strings.Contains(got, code) {
		t.Errorf("the code of a medium is shown: %q", got)
	}
}
