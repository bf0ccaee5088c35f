package asrockrack

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// resetOf runs the step to its end, as run does.
func (n *bench) resetOf(t *testing.T, d *Driver, looked func(look int)) error {
	t.Helper()
	step, failed := (Management{Driver: d}).NamedSteps(n.Node)[0], 0
	for look := range mostLooks {
		out, err := step.Run(t.Context(), n.Task(nil))
		if errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrUnknown) {
			if failed++; failed <= step.Retries {
				continue
			}
		}
		if err != nil {
			return err
		}
		if _, waits := out.Waiting(); !waits {
			return nil
		}
		looked(look)
	}
	t.Fatal("the step does not end")
	return nil
}

// The step ends once the BMC has restarted, and not before. It gives its order once.
func TestReset(t *testing.T) {
	slow := func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{ "ok": 0 }`)) }
	for _, c := range []struct {
		name   string
		answer func(*bench) func(http.ResponseWriter) // to the order; nil: it restarts at once
		at     int                                    // the look after which it restarts
		says   string
		resets int
	}{
		{"at once", nil, -1, "", 1},
		{"later", func(*bench) func(http.ResponseWriter) { return slow }, 7, "", 0},
		{"never", func(*bench) func(http.ResponseWriter) { return slow }, -1, "it accepted the order, and it has not been seen to restart within 10m0s", 0},
		{"with 500", func(n *bench) func(http.ResponseWriter) {
			return func(w http.ResponseWriter) {
				n.b.resets++
				n.b.restart()
				http.Error(w, "", http.StatusInternalServerError)
			}
		}, -1, "", 1},
		{"without an answer", func(n *bench) func(http.ResponseWriter) {
			return func(http.ResponseWriter) { n.b.resets++; n.b.restart(); panic(http.ErrAbortHandler) }
		}, -1, "", 1},
		{"refused", func(*bench) func(http.ResponseWriter) {
			return func(w http.ResponseWriter) { http.Error(w, "not you", http.StatusForbidden) }
		}, -1, "HTTP 403: not you", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newBench(t)
			if c.answer != nil {
				n.b.Set(func() { n.b.answers["/api/maintenance/reset"] = c.answer(n) })
			}
			restarted := c.at < 0
			err := n.resetOf(t, n.f.Driver, func(look int) {
				if look == c.at {
					n.b.Set(n.b.restart)
					restarted = true
				}
			})
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) || !restarted || n.b.resets != c.resets {
				t.Errorf("%v, restarted %t, %d resets; want %q and %d", err, restarted, n.b.resets, c.says, c.resets)
			}
			asked := 0
			for _, p := range n.b.paths {
				asked += strings.Count(p, "POST /api/maintenance/reset")
			}
			if asked != 1 || len(n.Rig.Busy) > 0 {
				t.Errorf("the order was given %d times; the BMC is said to be busy with %q", asked, n.Rig.Busy)
			}
		})
	}
}

// A successor gives no second order. That its predecessor's session is over shows nothing; that the BMC falls silent does.
func TestResetBySuccessor(t *testing.T) {
	for silent, says := range map[bool]string{true: "", false: "another rackd gave the order, which may be lost or carried out"} {
		t.Run(fmt.Sprintf("silent %t", silent), func(t *testing.T) {
			n := newBench(t)
			n.b.Set(func() {
				n.b.answers["/api/maintenance/reset"] = func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{}`)) }
			})
			if out, err := (Management{Driver: n.f.Driver}).resetBMC(t.Context(), n.Task(nil)); err != nil {
				t.Fatal(out, err)
			}
			if err := n.f.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := n.resetOf(t, newDriver(t), func(look int) {
				if silent && look == 3 {
					n.b.Spoiler.Away = 5 // more than one read is sent
					n.b.Spoiler.Spoil(drivertest.Reset, 1)
				}
			})
			if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
				t.Errorf("%v; want %q", err, says)
			}
		})
	}
}
