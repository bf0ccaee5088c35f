package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// bmc is a web server that wants to be shown a password, and tells of each request.
func bmc(t *testing.T) (url string, asked chan *http.Request) {
	asked = make(chan *http.Request, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/redfish/v1/" || r.URL.Path == "/redfish/v1":
			io.WriteString(w, `{"@odata.id":"/redfish/v1/","Systems":{"@odata.id":"/redfish/v1/Systems"}}`)
		case r.URL.Path == "/redfish/v1/Systems/1":
			io.WriteString(w, `{"@odata.id":"/redfish/v1/Systems/1","Id":"1","PowerState":"On"}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// A server of the site's bus that writes its own address into a node's document is asked for nothing and
// is shown no password; the BMC that central named is read on.
func TestAPasswordDoesNotFollowAForgedAddress(t *testing.T) {
	t.Parallel()
	site := bustest.Open(t)
	fleet, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := fleet.ForGroup("")
	if err != nil {
		t.Fatal(err)
	}
	const id = "11111111-2222-4333-8444-555555555555"
	genuine, ours := bmc(t)
	thief, theirs := bmc(t)
	info := key.SealFields(seal.Label{Kind: seal.DriverInfo, Of: id}, map[string]any{"redfish_address": genuine, "redfish_username": "root",
		"redfish_password": "open sesame", "redfish_auth_type": "basic", "redfish_system_id": "/redfish/v1/Systems/1"})
	d := node.Document{UUID: id, Driver: "redfish", State: provision.Available, Revision: 1, DriverInfo: info}
	write := func(body []byte, err error) {
		t.Helper()
		if err == nil {
			_, err = site.Nodes.Put(t.Context(), bus.NodeKey("", id), body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(d.AppendSigned(nil, key))
	observe := freeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Config{Name: "r", Conn: site.Conn, Keys: seal.NewKeyring("", key), DataDir: t.TempDir(), Drivers: []string{"redfish"},
			BMCs:      outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, // where this test's are
			PowerSync: 50 * time.Millisecond, Observe: observe, Log: slog.New(slog.DiscardHandler)}, nil)
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	reads := func(n int) {
		t.Helper()
		for range n {
			select {
			case r := <-ours:
				if _, password, _ := r.BasicAuth(); r.URL.Path == "/redfish/v1/Systems/1" && password != "open sesame" {
					t.Errorf("the BMC was shown the password %q", password)
				}
			case r := <-theirs:
				user, password, _ := r.BasicAuth()
				t.Fatalf("the thief was asked for %s by %s with password %q", r.URL, user, password)
			case <-time.After(30 * time.Second):
				t.Fatal("the BMC is not read any more")
			}
		}
	}
	reads(3)

	forged := d
	forged.Revision, forged.DriverInfo = 2, map[string]any{}
	for name, v := range info {
		forged.DriverInfo[name] = v
	}
	forged.DriverInfo["redfish_address"] = thief
	write(forged.Append(nil))
	for end := time.Now().Add(30 * time.Second); !strings.Contains(metricsAt(t, observe), `ironyard_rackd_forged_documents_total{bucket="NODES"} 1`); reads(1) {
		if time.Now().After(end) {
			t.Fatal("the forged document raised no alarm")
		}
	}
	reads(5)
}

// metricsAt is what a rackd shows there.
func metricsAt(t *testing.T, address string) string {
	t.Helper()
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
