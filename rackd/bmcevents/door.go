package bmcevents

import (
	"encoding/json"
	"io"
	"net/http"

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
		if told(r.Body) {
			l.post(id)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// post takes an event of the BMC of a node. Without a subscription, as after a restart, that node is looked at.
func (l *Listener) post(id string) {
	l.mu.Lock()
	s := l.named[id]
	l.mu.Unlock()
	if s == nil {
		l.Look(id, lookPause)
		return
	}
	l.heard(s)
}

// told reports whether a post may be an event.
func told(body io.Reader) bool {
	text, err := io.ReadAll(io.LimitReader(body, mostPost+1))
	if err != nil || len(text) > mostPost {
		return true
	}
	var e struct {
		Events, MetricValues []json.RawMessage
	}
	return json.Unmarshal(text, &e) != nil || len(e.Events) > 0 || e.MetricValues == nil
}
