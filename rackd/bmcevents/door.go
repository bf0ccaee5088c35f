package bmcevents

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// mostPost is how much of a post is read, in bytes. A longer one counts as an event.
const mostPost = 16 << 10

// Handler takes the posts of BMCs below Prefix. Reports of metrics are passed over. A connection ends with its post. The code
// stands in the BMC, where the machine's users may read it: it is no right to connections.
func (l *Listener) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Prefix+"{node}/{code}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		id := r.PathValue("node")
		if !l.Codes.Fits(id, r.PathValue("code")) {
			if l.lines.OfStranger() {
				l.Log.Warn("an event was refused: its address is of no node of this rackd", "node", strangers.Name(id), "from", r.RemoteAddr)
			}
			http.NotFound(w, r)
			return
		}
		if post, event := told(r.Body); event {
			l.post(r.Context(), id, post)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// post takes an event of the BMC of a node. Without a subscription, as after a restart, that node is looked at.
func (l *Listener) post(ctx context.Context, id string, post []byte) {
	l.mu.Lock()
	s := l.named[id]
	l.mu.Unlock()
	ids := []string{id}
	if s != nil {
		ids = l.heard(s)
	} else {
		l.Look(id, lookPause)
	}
	var sender driver.EventSender
	if s != nil {
		sender = s.sender
	} else if n, hw, err := l.Nodes.Owned(id); err == nil && n != nil {
		sender, _ = hw.Management().(driver.EventSender)
	}
	if sender != nil {
		l.show(context.WithoutCancel(ctx), "post", ids, sender.PostedEvents(post)) // BMCs that do not wait for the answer
	}
}

// told reads a post, and reports whether it may be an event.
func told(body io.Reader) ([]byte, bool) {
	text, err := io.ReadAll(io.LimitReader(body, mostPost+1))
	if err != nil || len(text) > mostPost {
		return nil, true
	}
	var e struct {
		Events, MetricValues []json.RawMessage
	}
	return text, json.Unmarshal(text, &e) != nil || len(e.Events) > 0 || e.MetricValues == nil
}
