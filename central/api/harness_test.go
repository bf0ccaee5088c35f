package api

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/audit"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
)

// noon is the time in all tests.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// fakeRoster is a roster in which every rackd serves every group.
type fakeRoster []bus.Member

func (f fakeRoster) Conductors() []bus.Member { return f }

func (f fakeRoster) Owner(_, driver, group string) (bus.Member, bool) {
	for _, m := range f {
		if m.Drivers[driver] != nil && m.Group == group {
			return m, true
		}
	}
	return bus.Member{}, false
}

// fakeAsker answers by method, with an error where there is no answer, or where that is
// diesAnswering.
type fakeAsker map[ask.Method]string

func (f fakeAsker) Ask(_ context.Context, m bus.Member, q ask.Request) (json.RawMessage, error) {
	body, known := f[q.Method]
	if !known || body == diesAnswering {
		return nil, &silent{sent: known}
	}
	return json.RawMessage(body), nil
}

// diesAnswering is the answer of a rackd that has got the question and dies.
const diesAnswering = ""

type silent struct{ sent bool }

func (s *silent) Sent() bool    { return s.sent }
func (*silent) Error() string   { return "conductor rack-1 did not answer" }
func (*silent) HTTPStatus() int { return http.StatusServiceUnavailable }

var fakeDriver = map[string][]string{
	"bios": {"no-bios"}, "boot": {"fake", "ipxe"}, "console": {"no-console"}, "deploy": {"fake", "direct"}, "firmware": {"no-firmware"},
	"inspect": {"fake", "no-inspect"}, "management": {"fake"}, "network": {"flat", "noop"}, "power": {"fake"}, "raid": {"no-raid"},
	"rescue": {"fake", "no-rescue"}, "storage": {"noop"}, "vendor": {"no-vendor"},
}

var redfishDriver = map[string][]string{"boot": {"ipxe"}, "deploy": {"direct"}, "management": {"redfish"}, "power": {"redfish"}}

type bench struct {
	t      testing.TB
	store  *store.Store
	server *Server
	ask    fakeAsker
	told   int // transactions that wrote to the outbox
	trail  *audit.Trail
	db     *sql.DB // to read it past the store; nil: it is no SQLite
	route  *Route  // that the last request took
	log    bytes.Buffer
	later  *atomic.Int64 // seconds since noon, for the database
}

func newBench(t testing.TB) *bench { return newBenchOn(t, storetest.SQLite(t)) }

// newBenchOn is newBench on a database.
func newBenchOn(t testing.TB, address string) *bench {
	t.Helper()
	b := &bench{t: t, later: new(atomic.Int64), ask: fakeAsker{
		ask.Validate:             `{"power":{"result":true},"deploy":{"result":true},"boot":{"result":true},"raid":{"result":null,"reason":"not supported"}}`,
		ask.GetBootDevice:        `{"boot_device":"pxe","persistent":false}`,
		ask.SetBootDevice:        `null`,
		ask.SupportedBootDevices: `["pxe","disk"]`,
		ask.DriverProperties:     `{"redfish_address":"address of the BMC"}`,
		ask.InjectNMI:            `null`,
	}}
	st, err := store.Open(context.Background(), address, store.Options{Now: func() time.Time { return noon.Add(time.Duration(b.later.Load()) * time.Second) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	key, err := seal.NewKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	b.store = st
	if file, is := strings.CutPrefix(address, "sqlite:"); is {
		if b.db, err = sql.Open("sqlite", "file:"+file+"?mode=ro"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.db.Close() })
	}
	log := slog.New(slog.NewTextHandler(&b.log, nil)) // one for all: a handler writes one line at a time
	b.trail = audit.New(audit.Config{Store: st, Log: log})
	st.WatchOutbox(func([]*store.Outbox) { b.told++ })
	b.server = New(Config{routed: func(r *Route) { b.route = r }, Store: st, Audit: b.trail, Ask: b.ask, Key: key, Now: func() time.Time { return noon },
		Log: log, PublicEndpoint: "http://ironyard.example:6385/", CORSOrigins: []string{"https://ui.example"},
		Roster: fakeRoster{
			{Name: "rack-1", StartedAt: noon, RenewedAt: noon, Drivers: map[string]map[string][]string{"fake-hardware": fakeDriver, "redfish": redfishDriver}},
			{Name: "rack-2", Group: "east", StartedAt: noon, RenewedAt: noon, Drivers: map[string]map[string][]string{"fake-hardware": fakeDriver}},
		}})
	covered.of(b.server.resources)
	return b
}

// answer is what a request got.
type answer struct {
	*http.Response
	body string
}

// do sends a request with a version ("" for none) and a body ("" for none).
func (b *bench) do(method, path, version, body string, headers ...string) answer {
	b.t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), method, "http://ironyard.example:6385"+path, strings.NewReader(body))
	if version != "" {
		r.Header.Set("X-OpenStack-Ironic-API-Version", version)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.route = nil
	b.server.ServeHTTP(w, r)
	resp := w.Result()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	a := answer{resp, string(raw)}
	if b.route != nil {
		covered.add(b.route, b.t.Name())
		b.checkDescribed(b.route, a, method, body)
	}
	return a
}

// want sends a request and fails the test unless it gets the status.
func (b *bench) want(status int, method, path, version, body string) answer {
	b.t.Helper()
	a := b.do(method, path, version, body)
	if a.StatusCode != status {
		b.t.Fatalf("%s %s at %q: status %d, want %d\n%s\n%s", method, path, version, a.StatusCode, status, a.body, b.log.String())
	}
	return a
}

// fault is the text of an error, and what its debuginfo adds.
func (a answer) fault(t testing.TB) string {
	t.Helper()
	var outer struct {
		Message string `json:"error_message"`
	}
	var inner struct{ Faultstring, Description, Title, Debuginfo string }
	if json.Unmarshal([]byte(a.body), &outer) != nil || json.Unmarshal([]byte(outer.Message), &inner) != nil {
		t.Fatalf("no doubly encoded error: %s", a.body)
	}
	if inner.Debuginfo != "" {
		inner.Debuginfo = " " + inner.Debuginfo
	}
	return cmp.Or(inner.Faultstring, inner.Description, inner.Title) + inner.Debuginfo // the framework has no words but the status's
}

func (a answer) object(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return m
}

const nodeID = "11111111-2222-4333-8444-555555555555"

// addNode creates the usual node.
func (b *bench) addNode() {
	b.t.Helper()
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+nodeID+`","name":"n1","driver":"fake-hardware",
		"driver_info":{"redfish_address":"https://bmc","redfish_password":"open sesame"},"properties":{"cpus":4},"extra":{"a":[1,2]}}`)
}

// move puts a node into a state as if a rack had reported it.
func (b *bench) move(ident string, state, target provision.State, change func(*store.Node)) {
	b.t.Helper()
	err := b.store.Update(context.Background(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, ident)
		if err != nil {
			return err
		}
		if n.WorkID != "" {
			if err := tx.EndWork(ctx, n.WorkID, store.WorkEnded, ""); err != nil {
				return err
			}
		}
		n.Accept(state, target, noon)
		if change != nil {
			change(n)
		}
		return tx.UpdateNode(ctx, n)
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// observe changes what racks have reported of a node.
func (b *bench) observe(ident string, change func(*store.Node)) {
	b.t.Helper()
	err := b.store.Update(context.Background(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, ident)
		if err != nil {
			return err
		}
		change(n)
		return tx.UpdateObservation(ctx, n)
	})
	if err != nil {
		b.t.Fatal(err)
	}
}
