package redfish

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// An iLO answers 400 to a login whose credentials are wrong. That is a refusal like 401: it is not repeated by the other way to log in, nor
// by the next reads.
func TestALoginThatIsRefusedBy400(t *testing.T) {
	for _, auth := range []string{"auto", "session"} {
		t.Run(auth, func(t *testing.T) {
			b := redfishtest.Start(t, "HPE", nil)
			var refused atomic.Int32
			rest := b.Config.Handler
			b.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _, basic := r.BasicAuth()
				switch {
				case r.Method == http.MethodPost:
					refused.Add(1)
					w.WriteHeader(http.StatusBadRequest)
					fmt.Fprint(w, `{"error":{"code":"iLO.0.10.ExtendedInfo","message":"See @Message.ExtendedInfo for more information.","@Message.ExtendedInfo":[{"MessageId":"iLO.0.10.UnauthorizedLoginAttempt"}]}}`)
				case basic:
					refused.Add(1)
					w.WriteHeader(http.StatusUnauthorized)
				default:
					rest.ServeHTTP(w, r)
				}
			})
			d := newDriver(t, Options{})
			n := &node.Document{UUID: "u", DriverInfo: map[string]any{fieldAddress: b.URL, fieldUser: "admin", fieldPassword: "wr0ng-pass", fieldVerifyCA: b.CA, fieldAuth: auth}}
			for range 5 {
				if _, err := d.PowerState(t.Context(), n); !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "wr0ng") {
					t.Fatalf("%v, want a refusal", err)
				}
			}
			if refused.Load() != 1 {
				t.Errorf("five reads made %d logins that were refused, want one", refused.Load())
			}
		})
	}
}
