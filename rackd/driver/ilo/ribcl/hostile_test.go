package ribcl

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// between puts a function between a double and its clients: it gets each request's body and the answer, and returns what is sent.
func (d *double) between(do func(body, answer string) (int, string)) {
	inner := d.Server.Config.Handler
	d.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		rec := httptest.NewRecorder()
		inner.ServeHTTP(rec, r)
		status, answer := do(string(body), rec.Body.String())
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	})
}

// An order whose answer cannot be read may have been carried out. It is looked at again, and not given twice.
func TestHalfAnAnswerToAnOrder(t *testing.T) {
	for name, half := range map[string]func(string) string{
		"half":          func(s string) string { return s[:len(s)-20] },
		"nothing":       func(string) string { return "" },
		"a page":        func(string) string { return "<html>starting</html>" },
		"a status of ?": func(s string) string { return strings.ReplaceAll(s, "0x0000", "?") },
	} {
		d, r := newDouble(t), newDriver(t)
		lost := 0
		d.between(func(body, answer string) (int, string) {
			if strings.Contains(body, `MODE="write"`) && lost == 0 {
				lost++
				return http.StatusOK, half(answer)
			}
			return http.StatusOK, answer
		})
		f, n := &drivertest.Fence{}, d.node(password)
		err := r.SetPower(t.Context(), f, n, driver.PowerOn)
		if !errors.Is(err, driver.ErrUnknown) || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v, want an ErrUnknown", name, err)
		}
		if err := driver.Settle(func() error { return r.SetPower(t.Context(), f, n, driver.PowerOn) }); err != nil || !d.on || len(d.writes) != 1 {
			t.Errorf("%s, looked at again: %v; writes %v", name, err, d.writes)
		}
	}
}

// Credentials that are refused by HTTP rest like those that are refused by RIBCL: an iLO counts both.
func TestCredentialsThatHTTPRefusesRest(t *testing.T) {
	d, r := newDouble(t), newDriver(t)
	tries := 0
	d.between(func(string, string) (int, string) { tries++; return http.StatusUnauthorized, "" })
	for range 10 {
		if _, err := r.PowerState(t.Context(), d.node(password)); !errors.Is(err, driver.ErrDenied) {
			t.Fatal(err)
		}
	}
	if tries != 1 {
		t.Errorf("the iLO was asked %d times with a password that it refuses", tries)
	}
}

// An answer that would become a million elements is refused before it takes the memory of a rackd's other nodes.
func TestAnAnswerOfAMillionElements(t *testing.T) {
	for name, bomb := range map[string]string{"elements": strings.Repeat("<a/>", 1_000_000), "attributes": "<a " + strings.Repeat("a ", 2_000_000) + "/>"} {
		if _, err := parse(answer(bomb)); err == nil || !strings.Contains(err.Error(), "pieces") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := parse(answer(strings.Repeat(healthG7, 50))); err != nil {
		t.Errorf("the health of a large machine: %v", err)
	}
}
