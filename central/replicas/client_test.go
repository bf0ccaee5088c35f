package replicas

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

// client works on a node of its own, as long as it is let: it switches the machine on
// and off and counts in the node's fields. It remembers what it was promised.
type client struct {
	*fleet
	http *http.Client
	node string

	requests []string // of power requests that were accepted (202), by their ids
	unsure   int      // power requests whose answer did not come, or was 503
	counted  int      // the last count that was confirmed
	tried    int      // the last count that was sent
	statuses map[int]int
}

// clients work until stop is called, which returns when each is through with its last
// request.
func (f *fleet) clients(n int) (list []*client, stop func()) {
	f.Helper()
	quit := make(chan struct{})
	var running sync.WaitGroup
	for i := range n {
		// Each request chooses a replica, so connections are not kept.
		c := &client{fleet: f, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 45 * time.Second}, statuses: map[int]int{}}
		c.enroll(fmt.Sprintf("n%d", i))
		list = append(list, c)
	}
	for _, c := range list {
		running.Go(func() {
			for i := 1; ; i++ {
				select {
				case <-quit:
					return
				default:
				}
				c.power([]string{"power on", "power off"}[i%2])
				c.count(i)
			}
		})
	}
	return list, sync.OnceFunc(func() { close(quit); running.Wait() })
}

// ask sends a request to some replica; status 0 means that no answer came.
func (c *client) ask(method, path, body string) (status int, request, answer string) {
	req, err := http.NewRequestWithContext(c.Context(), method, c.endpoint()+path, strings.NewReader(body))
	if err != nil {
		c.Error(err)
		return 0, "", ""
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.82")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, "", err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, "", err.Error()
	}
	c.statuses[res.StatusCode]++
	if res.StatusCode >= 500 && res.StatusCode != http.StatusServiceUnavailable {
		c.Errorf("%s %s: %d %s", method, path, res.StatusCode, text)
	}
	if strings.Contains(string(text), "database") && !saysWhatToDo(string(text)) {
		c.Errorf("%s %s: 503 does not say what to do: %s", method, path, text)
	}
	return res.StatusCode, res.Header.Get("Openstack-Request-Id"), string(text)
}

// saysWhatToDo reports whether a 503 about the database tells the caller how to go on.
func saysWhatToDo(text string) bool {
	for _, advice := range []string{"retry", "ask again", "Look at the resource before you repeat the request"} {
		if strings.Contains(text, advice) {
			return true
		}
	}
	return false
}

// enroll tries until the node is there; that it is there already may be our own doing.
func (c *client) enroll(name string) {
	c.Helper()
	until(c.T, time.Minute, "node "+name+" is enrolled", func() bool {
		status, _, text := c.ask("POST", "/v1/nodes", fmt.Sprintf(`{"driver":"fake-hardware","name":%q}`, name))
		var n struct{ UUID string }
		if status == http.StatusCreated && json.Unmarshal([]byte(text), &n) == nil {
			c.node = n.UUID
		}
		return c.node != ""
	})
}

// power sends one request, and waits until the node is free again.
func (c *client) power(target string) {
	switch status, id, text := c.ask("PUT", "/v1/nodes/"+c.node+"/states/power", fmt.Sprintf(`{"target":%q}`, target)); status {
	case http.StatusAccepted:
		c.requests = append(c.requests, id)
	case 0, http.StatusServiceUnavailable:
		c.unsure++
	case http.StatusConflict: // our last request, whose answer did not come
	default:
		c.Errorf("power: %d %s", status, text)
	}
	until(c.T, 90*time.Second, "node "+c.node+" is free again", func() bool {
		status, _, text := c.ask("GET", "/v1/nodes/"+c.node+"?fields=reservation,target_power_state", "")
		var n struct {
			Reservation *string
			Target      *string `json:"target_power_state"`
		}
		return status == http.StatusOK && json.Unmarshal([]byte(text), &n) == nil && n.Reservation == nil && n.Target == nil
	})
}

// count writes i into the node's fields.
func (c *client) count(i int) {
	c.tried = i
	switch status, _, text := c.ask("PATCH", "/v1/nodes/"+c.node, fmt.Sprintf(`[{"op":"add","path":"/extra/count","value":%d}]`, i)); status {
	case http.StatusOK:
		c.counted = i
	case 0, http.StatusServiceUnavailable, http.StatusConflict:
	default:
		c.Errorf("count: %d %s", status, text)
	}
}

// check compares what the client was promised with what has become of it.
func (c *client) check() {
	c.Helper()
	n, err := c.store.Node(c.Context(), c.node)
	if err != nil {
		c.Fatal(err)
	}
	if got, _ := n.Extra["count"].(float64); int(got) < c.counted || int(got) > c.tried {
		c.Errorf("node %s counts %v: %d was confirmed, %d was sent", c.node, n.Extra["count"], c.counted, c.tried)
	}
	works, err := c.store.Works(c.Context(), c.node)
	if err != nil {
		c.Fatal(err)
	}
	rows := map[string]*store.Work{}
	for _, w := range works {
		if rows[w.RequestID] != nil {
			c.Errorf("node %s: request %s was accepted twice", c.node, w.RequestID)
		}
		rows[w.RequestID] = w
		if w.State != store.WorkEnded || w.Error != "" {
			c.Errorf("node %s: work %s is %s, error %q", c.node, w.ID, w.State, w.Error)
		}
		if times := c.rack.times(w.ID); times != 1 {
			c.Errorf("node %s: work %s was carried out %d times", c.node, w.ID, times)
		}
		lines, err := c.store.History(c.Context(), store.HistoryQuery{Node: c.node, Work: w.ID})
		if err != nil || len(lines) != linesOfWork {
			c.Errorf("node %s: %d lines of history for work %s, error %v, want %d", c.node, len(lines), w.ID, err, linesOfWork)
		}
	}
	for _, id := range c.requests {
		if rows[id] == nil {
			c.Errorf("node %s: request %s was answered 202 and is lost", c.node, id)
		}
	}
	if most := len(c.requests) + c.unsure; len(works) > most || n.Generation != int64(len(works)) {
		c.Errorf("node %s: %d works, generation %d, from %d requests", c.node, len(works), n.Generation, most)
	}
	if n.WorkID != "" || n.TargetPowerState != "" {
		c.Errorf("node %s is left with work %q, target power state %q", c.node, n.WorkID, n.TargetPowerState)
	}
}

// checkAll waits until everything has come to rest and checks it.
func (f *fleet) checkAll(list []*client) {
	f.Helper()
	until(f.T, 30*time.Second, "the outbox is empty", func() bool {
		waiting, err := f.store.OutboxBacklog(f.Context())
		return err == nil && len(waiting) == 0
	})
	until(f.T, 30*time.Second, "no work is left at the site", func() bool {
		keys, err := f.rack.site.Work.ListKeys(f.Context())
		if err != nil {
			return false
		}
		left := 0
		for range keys.Keys() {
			left++
		}
		return left == 0
	})
	requests, unsure, statuses := 0, 0, map[int]int{}
	for _, c := range list {
		c.check()
		requests, unsure = requests+len(c.requests), unsure+c.unsure
		for k, v := range c.statuses {
			statuses[k] += v
		}
	}
	f.Logf("%d power requests accepted, %d without an answer; statuses %v", requests, unsure, statuses)
	if requests == 0 {
		f.Error("no request was accepted: the test shows nothing")
	}
}
