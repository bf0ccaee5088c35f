package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ironyard/ironyard/central/console"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
)

// showing is a rackd with one graphical console.
type showing struct {
	mu      sync.Mutex
	tenancy string
	methods []ask.Method
	typed   string
}

func (s *showing) Ask(q ask.Request) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.methods = append(s.methods, q.Method)
	if q.Method == ask.Console {
		return json.RawMessage(`{"type":"vnc"}`), nil
	}
	var of ask.Viewer
	if err := json.Unmarshal(q.Args, &of); err != nil {
		return nil, err
	}
	if of.Tenancy != s.tenancy {
		return nil, &ask.Error{Status: http.StatusConflict, Message: "the node has changed hands"}
	}
	switch q.Method {
	case ask.ReadConsole:
		return json.Marshal(ask.ConsoleOutput{State: ask.ConsoleOpen, Graphical: true})
	case ask.ReadViewer:
		var at ask.ViewerRead
		if err := json.Unmarshal(q.Args, &at); err != nil {
			return nil, err
		}
		text := "RFB 003.008\n" + s.typed
		if int(at.From) == len(text) {
			s.mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			s.mu.Lock()
			text = text[:min(len(text), len("RFB 003.008\n")+len(s.typed))]
		}
		at.From = min(at.From, int64(len(text)))
		return json.Marshal(ask.ViewerOutput{Data: []byte(text[at.From:])})
	case ask.WriteViewer:
		var in ask.ViewerInput
		if err := json.Unmarshal(q.Args, &in); err != nil {
			return nil, err
		}
		s.typed += string(in.Data)
	}
	return json.RawMessage(`{}`), nil
}

// A graphical console has Ironic's type and a URL; it is opened by those who may, goes on through the same session, and has no log. Who
// loses the node sees and types nothing more.
func TestGraphicalConsole(t *testing.T) {
	b, _, server := newConsoles(t)
	n, err := b.store.Node(t.Context(), nodeID)
	if err != nil {
		t.Fatal(err)
	}
	e := &showing{tenancy: n.Tenancy()}
	b.server.Ask, b.server.dispatch.Ask = askerFunc(e.Ask), askerFunc(e.Ask)
	system, owner := "system "+adminRoles, ownerProject+" "+memberRoles
	shown := b.wantAs(200, owner, "GET", "/v1/nodes/"+nodeID+"/states/console", "").body
	if !strings.Contains(shown, `"type":"vnc"`) || !strings.Contains(shown, `/v1/nodes/`+nodeID+`/states/console/stream"`) {
		t.Errorf("console_info: %s", shown)
	}
	if a := b.wantAs(400, owner, "GET", "/v1/nodes/"+nodeID+"/states/console/log", ""); !strings.Contains(a.fault(t), "graphical") {
		t.Errorf("the log of a graphical console: %s", a.body)
	}
	for who, status := range map[string]int{ownerProject + " reader": 403, lesseeProject + " " + adminRoles: 403, foreignProject + " " + adminRoles: 404} {
		if _, resp, _ := session(t, server, who); resp == nil || resp.StatusCode != status {
			t.Errorf("%s: %v, want %d", who, resp, status)
		}
	}
	conn, _, err := session(t, server, owner)
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := reads(t, conn, "RFB 003.008\n"); err != nil {
		t.Fatalf("shown %q, %v", shown, err)
	}
	if err := conn.Write(t.Context(), websocket.MessageBinary, []byte("key")); err != nil {
		t.Fatal(err)
	}
	if shown, err := reads(t, conn, "key"); err != nil {
		t.Fatalf("shown %q, %v", shown, err)
	}
	b.wantAs(200, system, "PATCH", "/v1/nodes/"+nodeID, `[{"op":"replace","path":"/owner","value":"`+foreignProject+`"}]`)
	if n, err = b.store.Node(t.Context(), nodeID); err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	e.tenancy, e.typed = n.Tenancy(), "of the next owner"
	e.mu.Unlock()
	_ = conn.Write(t.Context(), websocket.MessageBinary, []byte("still mine?")) // it may be over already
	if shown, err := reads(t, conn, ""); websocket.CloseStatus(err) != websocket.StatusPolicyViolation || strings.Contains(shown, "next owner") {
		t.Errorf("the former owner's session: %q, %v", shown, err)
	}
	e.mu.Lock()
	if strings.Contains(e.typed, "still") {
		t.Error("what the former owner has typed has reached the machine")
	}
	e.mu.Unlock()
	b.observe(nodeID, func(n *store.Node) { n.ConsoleEnabled = false })
	if _, resp, _ := websocket.Dial(context.Background(), server.URL+"/v1/nodes/"+nodeID+"/states/console/stream", &websocket.DialOptions{HTTPHeader: http.Header{"X-Who": {system}}, Subprotocols: []string{console.Protocol}}); resp == nil || resp.StatusCode != 400 {
		t.Errorf("one that is not enabled: %v", resp)
	}
}
