package console

import (
	"encoding/base64"
	"net/http"
	"testing"
)

// A page in a browser says who it is by a subprotocol. What the headers say otherwise counts more.
func TestCredentials(t *testing.T) {
	basic := "Basic YW5uOm9wZW4gc2VzYW1l"
	offer := Protocol + ", " + authorizationProtocol + base64.RawURLEncoding.EncodeToString([]byte(basic)) + ", " + tokenProtocol + base64.RawURLEncoding.EncodeToString([]byte("t0ken"))
	h := Credentials(http.Header{"Sec-Websocket-Protocol": {offer}})
	if h.Get("Authorization") != basic || h.Get("X-Auth-Token") != "t0ken" || h.Get("Sec-WebSocket-Protocol") != Protocol {
		t.Errorf("headers %v", h)
	}
	given := http.Header{"Sec-Websocket-Protocol": {offer}, "X-Auth-Token": {"own"}}
	if h := Credentials(given); h.Get("X-Auth-Token") != "own" || given.Get("Authorization") != "" {
		t.Errorf("headers %v of %v", h, given)
	}
	for _, odd := range []string{"", Protocol, tokenProtocol + "!!", authorizationProtocol} {
		if h := Credentials(http.Header{"Sec-Websocket-Protocol": {odd}}); h.Get("X-Auth-Token") != "" || h.Get("Authorization") != "" {
			t.Errorf("%q: headers %v", odd, h)
		}
	}
}

func TestSessionsAreCounted(t *testing.T) {
	s := NewSessions(nil)
	var leave []func()
	for i := range MaxSessions {
		l, err := s.Enter(string(rune('a'+i/MaxOfNode)), string(rune('A'+i/MaxOfProject)))
		if err != nil {
			t.Fatal(i, err)
		}
		leave = append(leave, l)
	}
	for _, node := range []string{"a", "another"} {
		if _, err := s.Enter(node, "another"); err == nil {
			t.Errorf("one session more of %s", node)
		}
	}
	for range 50 { // places for others
		last := len(leave) - 1
		leave[last]()
		leave = leave[:last]
	}
	if _, err := s.Enter("another", "A"); err == nil {
		t.Error("one session more of a project that has as many as it may")
	}
	if l, err := s.Enter("another", "another"); err != nil {
		t.Errorf("another project gets no place: %v", err)
	} else {
		leave = append(leave, l)
	}
	for _, l := range leave {
		l()
	}
	if s.all != 0 || len(s.nodes) != 0 || len(s.of) != 0 {
		t.Errorf("%d sessions of %d nodes are left", s.all, len(s.nodes))
	}
	if !s.News("n", "ann") || s.News("n", "ann") || !s.News("n", "bob") || !s.News("m", "ann") {
		t.Error("what is news is not told once")
	}
}
