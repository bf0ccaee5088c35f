package vbox

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// A call that is given up while it holds a machine's lock lets it go. The login goes on for the host's other machines, and with
// it the lock would: nothing could be done with the machine any more.
func TestALockIsLetGoByACallThatIsGivenUp(t *testing.T) {
	for _, at := range []string{"IMachine_lockMachine", "ISession_getMachine", "IMachine_setBootOrder", "IMachine_saveSettings"} {
		h, d := newDouble(t), newDriver(t)
		ctx, cancel := context.WithCancel(t.Context())
		inner := h.Server.Config.Handler
		h.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			inner.ServeHTTP(w, r)
			if bytes.Contains(body, []byte("v:"+at+">")) && ctx.Err() == nil { // it was carried out
				cancel()
				<-r.Context().Done()
				panic(http.ErrAbortHandler)
			}
		})
		if err := d.SetBootDevice(ctx, &drivertest.Fence{}, h.node(nil), driver.BootPXE, true); err == nil {
			t.Errorf("%s: the call that was given up has ended well", at)
		}
		h.Set(func() {
			if by := h.machines["web1"].locked; by != "" {
				t.Errorf("given up after %s, the machine is locked by %s still", at, by)
			}
		})
		cancel()
	}
}

// The web service ends a connection that was kept. What only reads is asked again; a login, a lock, or what makes an object there is not.
func TestLoginsAreNotRepeated(t *testing.T) {
	h, d := newDouble(t), newDriver(t)
	target, err := parse(h.node(nil))
	if err != nil {
		t.Fatal(err)
	}
	s, err := logon(t.Context(), target.Web, d.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Drop()
	find := func() error {
		_, err := s.one(t.Context(), "IVirtualBox_findMachine", "_this", s.box, "nameOrId", "web1")
		return err
	}
	for _, c := range []struct {
		name  string
		do    func() error
		asked int
		lost  bool
	}{
		{"a read", find, 2, false},
		{"a session", func() error {
			return host{s, s.box + "/machine/web1"}.locked(t.Context(), "Shared", func(string) error { return nil })
		}, 1, true},
		{"a login", func() error { return s.login(t.Context()) }, 1, true},
	} {
		if err := find(); err != nil { // the connection is kept
			t.Fatal(err)
		}
		h.Spoiler.Spoil(drivertest.Lost, 1)
		if err := c.do(); (err != nil) != c.lost || h.Spoiler.Asked() != c.asked {
			t.Errorf("%s: asked %d times, want %d: %v", c.name, h.Spoiler.Asked(), c.asked, err)
		}
	}
	h.Set(func() {
		if len(h.boxes) != 2 {
			t.Errorf("%d logins were taken in, want the first and the lost one", len(h.boxes))
		}
	})
}
