package cisco

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// A manager ends a connection that was kept. What only reads is asked again; a login or a refresh, which leaves a session, is not.
func TestLoginsAreNotRepeated(t *testing.T) {
	web := drivertest.NewWeb(t, false, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		method, _, _ := strings.Cut(strings.TrimPrefix(string(raw), "<"), " ")
		fmt.Fprintf(w, `<%s outCookie="c" outRefreshPeriod="600" response="yes"><outConfig><a dn="x"/></outConfig></%s>`, method, method)
	})
	host, port := web.HostPort()
	at := bmc.Web{Node: &node.Document{UUID: "b3d1"}, Scheme: "http", Host: host, Port: port, User: "admin", Password: "s3cret", VerifyCA: "true"}
	s, err := Login(t.Context(), at, bmc.WebOptions{ConnectTimeout: 5 * time.Second, AnswerTimeout: 5 * time.Second, Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Drop()
	resolve := func() error { _, _, err := s.Resolve(t.Context(), "x", false); return err }
	for _, c := range []struct {
		name  string
		do    func() error
		asked int
		lost  bool
	}{
		{"a login", func() error { return s.login(t.Context()) }, 1, true},
		{"a refresh", func() error { s.since = time.Now().Add(-400 * time.Second); return s.fresh(t.Context()) }, 1, true},
		{"a read", resolve, 2, false},
	} {
		s.since = time.Now()
		if err := resolve(); err != nil { // the connection is kept
			t.Fatal(err)
		}
		web.Spoiler.Spoil(drivertest.Lost, 1)
		if err := c.do(); (err != nil) != c.lost || web.Spoiler.Asked() != c.asked {
			t.Errorf("%s: asked %d times, want %d: %v", c.name, web.Spoiler.Asked(), c.asked, err)
		}
	}
}
