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
