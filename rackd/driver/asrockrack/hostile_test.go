package asrockrack

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// bomb is a gzip file that unpacks to a list of a hundred megabytes.
func bomb(t *testing.T) []byte {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	part := []byte(strings.Repeat("{},", 1<<20))
	_, err := z.Write([]byte("["))
	for range 32 {
		_, more := z.Write(part)
		err = errors.Join(err, more)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// A BMC that lies costs rackd no more than its bounds, is followed nowhere, and ends no call by a panic. An order that it answers so counts
// as one whose end is not known.
func TestABMCThatLies(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	packed := bomb(t)
	to := func(code int, at string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.Header().Set("Location", at); w.WriteHeader(code) }
	}
	say := func(text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { _, _ = w.Write([]byte(text)) }
	}
	endless := func(w http.ResponseWriter) {
		for {
			if _, err := w.Write([]byte(strings.Repeat(" ", 64<<10))); err != nil {
				return
			}
		}
	}
	const power, orders, fru, inventory, sensors = "/api/chassis-status", "/api/actions/power", "/api/fru", "/api/asrr/inventory_info", "/api/sensors"
	read := func(d *Driver, b *double) error { _, err := d.PowerState(t.Context(), b.node(nil)); return err }
	order := func(d *Driver, b *double) error {
		return d.SetPower(t.Context(), &drivertest.Fence{}, b.node(nil), driver.PowerOn)
	}
	inspect := func(d *Driver, b *double) error {
		_, err := d.device(t.Context(), b.node(nil), "inspect the machine")
		return err
	}
	for name, c := range map[string]struct {
		at     string
		answer func(http.ResponseWriter)
		call   func(*Driver, *double) error
		says   string
		want   error
	}{
		"an answer without an end":           {power, endless, read, "larger than", driver.ErrUnreachable},
		"a login without an end":             {loginPath, endless, read, "larger than", driver.ErrUnreachable},
		"an order's answer without an end":   {orders, endless, order, "", driver.ErrUnknown},
		"a long list of FRUs":                {fru, say("[" + strings.Repeat("{},", 1<<20) + "{}]"), read, "are the most that rackd reads", nil},
		"a long list of parts":               {inventory, say("[" + strings.Repeat("{},", 1<<20) + "{}]"), inspect, "are the most that rackd reads", nil},
		"an order's long answer":             {orders, say(strings.Repeat(" ", longestAnswer+1)), order, "are the most that rackd reads", driver.ErrUnknown},
		"a packed list":                      {inventory, func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "gzip"); _, _ = w.Write(packed) }, inspect, "larger than", nil},
		"lists in lists":                     {power, say(strings.Repeat("[", longestAnswer-1)), read, "", nil},
		"a part that is none":                {inventory, say("[null]"), inspect, "a fault of this driver", nil},
		"a FRU that is none":                 {fru, say(`[{"board": null}]`), read, "a fault of this driver", nil},
		"a login elsewhere":                  {loginPath, to(http.StatusTemporaryRedirect, other.URL), read, "without a token", nil},
		"a state elsewhere":                  {power, to(http.StatusFound, other.URL), read, "HTTP 302", nil},
		"a state elsewhere on the same host": {power, to(http.StatusFound, "http://127.0.0.1:1/"), read, "HTTP 302", nil},
		"a state in a ring":                  {power, to(http.StatusFound, power), read, "HTTP 302", nil},
		"an order elsewhere":                 {orders, to(http.StatusPermanentRedirect, other.URL), order, "HTTP 308", nil},
	} {
		t.Run(name, func(t *testing.T) {
			b, d := newDouble(t), newDriver(t)
			b.Set(func() { b.answers[c.at] = c.answer })
			err := c.call(d, b)
			if err == nil || !strings.Contains(err.Error(), c.says) || c.want != nil && !errors.Is(err, c.want) || len(err.Error()) > 2000 {
				t.Fatalf("%.2000v; want %v that says %q", err, c.want, c.says)
			}
			if strings.Contains(err.Error(), b.password) || elsewhere.Load() > 0 {
				t.Errorf("another server was asked %d times: %v", elsewhere.Load(), err)
			}
			b.Set(func() { clear(b.answers) })
			if _, err := d.PowerState(context.WithoutCancel(t.Context()), b.node(nil)); err != nil {
				t.Errorf("it tells the truth again: %v", err)
			}
		})
	}
}
