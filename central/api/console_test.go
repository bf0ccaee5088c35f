package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/console"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
)

// echoing is a rackd with one console, which repeats what is typed.
type echoing struct {
	mu      sync.Mutex
	tenancy string
	text    string
	asked   []ask.Request
	fail    error
}

func (e *echoing) Ask(q ask.Request) (json.RawMessage, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, q)
	if e.fail != nil {
		return nil, e.fail
	}
	if q.Method == ask.WriteConsole {
		var in ask.ConsoleInput
		if err := json.Unmarshal(q.Args, &in); err != nil {
			return nil, err
		}
		if in.Tenancy != e.tenancy {
			return nil, &ask.Error{Status: http.StatusConflict, Message: "the node has changed hands"}
		}
		e.text += string(in.Data)
		return json.RawMessage(`{}`), nil
	}
	var at ask.ConsoleRead
	if err := json.Unmarshal(q.Args, &at); err != nil {
		return nil, err
	}
	if at.Tenancy != e.tenancy {
		return nil, &ask.Error{Status: http.StatusConflict, Message: "the node has changed hands"}
	}
	log := "log of " + e.tenancy
	if at.Log != log {
		at.From = 0
	}
	if at.WaitMS > 0 && int(at.From) == len(e.text) {
		e.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		e.mu.Lock()
		at.From = min(at.From, int64(len(e.text)))
	}
	return json.Marshal(ask.ConsoleOutput{Log: log, Next: int64(len(e.text)), Data: []byte(e.text[at.From:]), State: ask.ConsoleOpen})
}

func (e *echoing) set(do func()) { e.mu.Lock(); defer e.mu.Unlock(); do() }

// newConsoles is a bench whose node n1 has a console, behind a server.
func newConsoles(t *testing.T) (*bench, *echoing, *httptest.Server) {
	b := newGuarded(t)
	b.observe(nodeID, func(n *store.Node) { n.ConsoleEnabled = true })
	n, err := b.store.Node(t.Context(), nodeID)
	if err != nil {
		t.Fatal(err)
	}
	e := &echoing{tenancy: n.Tenancy(), text: "login: "}
	asker := askerFunc(e.Ask)
	b.server.Ask, b.server.dispatch.Ask = asker, asker
	server := httptest.NewServer(b.server)
	t.Cleanup(server.Close)
	return b, e, server
}

// session opens the console of n1 as a caller.
func session(t *testing.T, server *httptest.Server, who string, headers ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	h := http.Header{"X-Who": {who}}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	conn, resp, err := websocket.Dial(t.Context(), server.URL+"/v1/nodes/"+nodeID+"/states/console/stream", &websocket.DialOptions{HTTPHeader: h, Subprotocols: []string{console.Protocol}})
	if conn != nil {
		t.Cleanup(func() { conn.CloseNow() })
	}
	return conn, resp, err
}

// reads reads a session until it has shown words, or has ended.
func reads(t *testing.T, conn *websocket.Conn, words string) (all string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for words == "" || !strings.Contains(all, words) {
		_, p, err := conn.Read(ctx)
		if err != nil {
			return all, err
		}
		all += string(p)
	}
	return all, nil
}

// A page in a browser opens a console by the node's name, and can ask for no version of the API.
func TestAConsoleByName(t *testing.T) {
	_, e, server := newConsoles(t)
	conn, _, err := websocket.Dial(t.Context(), server.URL+"/v1/nodes/n1/states/console/stream",
		&websocket.DialOptions{HTTPHeader: http.Header{"X-Who": {"system " + adminRoles}}, Subprotocols: []string{console.Protocol}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	if got, err := reads(t, conn, e.text); err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Callers who may get a node's console open it, and no others.
func TestWhoOpensAConsole(t *testing.T) {
	b, _, server := newConsoles(t)
	for who, status := range map[string]int{
		ownerProject + " " + memberRoles: 101, "system " + adminRoles: 101, ownerProject + " reader": 403, lesseeProject + " " + adminRoles: 403,
		foreignProject + " " + adminRoles: 404, "system reader": 403,
	} {
		_, resp, _ := session(t, server, who)
		if resp == nil || resp.StatusCode != status {
			t.Errorf("%s: %v, want %d", who, resp, status)
		}
		want := status
		if status == 101 {
			want = 200
		}
		if a := b.as(who, "GET", "/v1/nodes/"+nodeID+"/states/console/log", ""); a.StatusCode != want || want == 200 && a.body != "login: " {
			t.Errorf("the log as %s: status %d, want %d: %s", who, a.StatusCode, want, a.body)
		}
	}
	owner := ownerProject + " " + memberRoles
	for origin, status := range map[string]int{
		"https://evil.example": 403, "https://ui.example": 101, server.URL: 101, "null": 403,
		"http://ui.example": 403, "https" + strings.TrimPrefix(server.URL, "http"): 403, "http://ironyard.example:6385": 101, "https://ironyard.example:6385": 403,
	} {
		if _, resp, _ := session(t, server, owner, "Origin", origin); resp == nil || resp.StatusCode != status {
			t.Errorf("a page of %s: %v, want %d", origin, resp, status)
		}
	}
	for _, header := range [][2]string{{"X-Forwarded-Host", "evil.example"}, {"Forwarded", "host=evil.example;proto=https"}} { // no trusted proxy says so
		for _, origin := range []string{"http://evil.example", "https://evil.example"} {
			if _, resp, _ := session(t, server, owner, "Origin", origin, header[0], header[1]); resp == nil || resp.StatusCode != http.StatusForbidden {
				t.Errorf("a page of %s with %s: %v", origin, header, resp)
			}
		}
	}
	b.wantAs(http.StatusUpgradeRequired, owner, "GET", "/v1/nodes/"+nodeID+"/states/console/stream", "")
	b.observe(nodeID, func(n *store.Node) { n.ConsoleEnabled = false })
	for _, part := range []string{"stream", "log"} {
		if a := b.wantAs(400, owner, "GET", "/v1/nodes/"+nodeID+"/states/console/"+part, ""); !strings.Contains(a.fault(t), "Console access is not enabled on node "+nodeID) {
			t.Errorf("%s of a console that is not enabled: %s", part, a.body)
		}
	}
}

// A session that is open ends when its caller's rights do, and nothing that is typed after that reaches the machine.
func TestConsoleEndsWithTheRights(t *testing.T) {
	b, e, server := newConsoles(t)
	owner, _, err := session(t, server, ownerProject+" "+memberRoles)
	if err != nil {
		t.Fatal(err)
	}
	system, _, err := session(t, server, "system "+adminRoles)
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Write(t.Context(), websocket.MessageBinary, []byte("mine")); err != nil {
		t.Fatal(err)
	}
	for _, conn := range []*websocket.Conn{owner, system} {
		if shown, err := reads(t, conn, "mine"); err != nil {
			t.Fatalf("shown %q, %v", shown, err)
		}
	}
	b.wantAs(200, "system "+adminRoles, "PATCH", "/v1/nodes/"+nodeID, `[{"op":"replace","path":"/owner","value":"`+foreignProject+`"}]`)
	n, err := b.store.Node(t.Context(), nodeID)
	if err != nil {
		t.Fatal(err)
	}
	e.set(func() { e.tenancy, e.text = n.Tenancy(), "" })
	_ = owner.Write(t.Context(), websocket.MessageBinary, []byte("still mine?")) // it may be over already
	if shown, err := reads(t, owner, ""); websocket.CloseStatus(err) != websocket.StatusPolicyViolation || strings.Contains(shown, "still") {
		t.Errorf("the former owner's session: %q, %v", shown, err)
	}
	e.set(func() {
		if strings.Contains(e.text, "still mine?") {
			t.Error("what the former owner has typed has reached the machine")
		}
		e.text = "of the next owner"
	})
	if shown, err := reads(t, system, "of the next owner"); err != nil {
		t.Errorf("who may still look sees %q, %v", shown, err)
	}
}

// revocable is a strategy whose credentials end.
type revocable struct {
	wordOf
	refuse atomic.Pointer[auth.Denied]
}

func (a *revocable) Authenticate(r *http.Request) (*auth.Caller, error) {
	if refused := a.refuse.Load(); refused != nil {
		return nil, refused
	}
	return a.wordOf.Authenticate(r)
}

// A session ends with the credentials that it was opened with. A service that cannot say now whether they are good ends none.
func TestConsoleEndsWithItsCredentials(t *testing.T) {
	t.Parallel()
	b, e, server := newConsoles(t)
	door := &revocable{}
	b.server.Auth = door
	conn, _, err := session(t, server, ownerProject+" "+memberRoles)
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := reads(t, conn, "login: "); err != nil {
		t.Fatalf("shown %q, %v", shown, err)
	}
	door.refuse.Store(&auth.Denied{Status: http.StatusServiceUnavailable, Message: "Keystone cannot be asked"})
	if shown, err := reads(t, conn, "Keystone cannot be asked"); err != nil {
		t.Fatalf("without Keystone: shown %q, %v", shown, err)
	}
	door.refuse.Store(nil)
	e.set(func() { e.text += "still here" })
	if shown, err := reads(t, conn, "still here"); err != nil {
		t.Fatalf("shown %q, %v", shown, err)
	}
	door.refuse.Store(&auth.Denied{Message: "no", Reason: "the token has ended"})
	if shown, err := reads(t, conn, ""); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("with a token that has ended: shown %q, %v", shown, err)
	}
	_ = conn.Write(t.Context(), websocket.MessageBinary, []byte("too late"))
	e.set(func() {
		if strings.Contains(e.text, "too late") {
			t.Error("what was typed without credentials has reached the machine")
		}
	})
}

// A rackd that is silent for a while ends no session; the session says so, and goes on where it was.
func TestConsoleOutlivesARackd(t *testing.T) {
	t.Parallel()
	_, e, server := newConsoles(t)
	conn, _, err := session(t, server, "system "+adminRoles)
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := reads(t, conn, "login: "); err != nil {
		t.Fatalf("shown %q, %v", shown, err)
	}
	e.set(func() { e.fail = &silent{} })
	if shown, err := reads(t, conn, "did not answer"); err != nil {
		t.Fatalf("shown %q, %v", shown, err)
	}
	if err := conn.Write(t.Context(), websocket.MessageBinary, []byte("lost")); err != nil {
		t.Fatal(err)
	}
	if shown, err := reads(t, conn, `"error"`); err != nil {
		t.Fatalf("shown %q, %v", shown, err)
	}
	e.set(func() { e.fail, e.text = nil, e.text+"back" })
	if shown, err := reads(t, conn, "back"); err != nil || strings.Contains(shown, "login: ") {
		t.Errorf("shown %q, %v", shown, err)
	}
}

// Sessions of one node are bounded, and their places are given back.
func TestConsoleSessionsAreBounded(t *testing.T) {
	_, _, server := newConsoles(t)
	var open []*websocket.Conn
	for range console.MaxOfNode {
		conn, _, err := session(t, server, "system "+adminRoles)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	if _, resp, _ := session(t, server, "system "+adminRoles); resp == nil || resp.StatusCode != 503 {
		t.Errorf("one more: %v", resp)
	}
	open[0].CloseNow()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, resp, err := session(t, server, "system "+adminRoles); err == nil {
			return
		} else if time.Now().After(end) {
			t.Fatalf("no place was given back: %v", resp)
		}
	}
}

// Whatever a session asks of a rackd says as of which tenancy its caller was let in.
func TestConsoleQuestionsNameTheTenancy(t *testing.T) {
	b, e, server := newConsoles(t)
	conn, _, err := session(t, server, ownerProject+" "+memberRoles)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(t.Context(), websocket.MessageBinary, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := reads(t, conn, "x"); err != nil {
		t.Fatal(err)
	}
	n, err := b.store.Node(t.Context(), nodeID)
	if err != nil {
		t.Fatal(err)
	}
	e.set(func() {
		if len(e.asked) < 2 || slices.ContainsFunc(e.asked, func(q ask.Request) bool {
			return !strings.Contains(string(q.Args), n.Tenancy()) || q.Node != nodeID || q.NodeRevision != n.RackRevision
		}) {
			t.Errorf("asked %+v", e.asked)
		}
	})
	if tenancy := n.Tenancy(); tenancy == "" || strings.Contains(tenancy, ownerProject) || strings.Contains(tenancy, lesseeProject) {
		t.Errorf("the tenancy %q tells who they are", tenancy)
	}
}
