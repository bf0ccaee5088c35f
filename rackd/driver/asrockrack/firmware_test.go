package asrockrack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// store is a rack's cache with one file.
type store struct {
	*drivertest.Rig
	path string
}

// File implements driver.ImageFiles.
func (s store) File(string) (*os.File, func(), error) {
	f, err := os.Open(s.path)
	return f, func() { _ = f.Close() }, err
}

const image = "firmware of a board"

// bench is a board whose firmware is written, with the rack around it.
type bench struct {
	*drivertest.Rig
	b *double
	f Firmware
	s store
}

func newBench(t *testing.T) *bench {
	b, d, r := newDouble(t), newDriver(t), drivertest.NewRig()
	d.rest = 0
	r.Node.DriverInfo = b.node(nil).DriverInfo
	b.restarts = func() int { return len(r.Writes("power power on")) + len(r.Writes("power rebooting")) }
	at := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(at, []byte(image), 0o600); err != nil {
		t.Fatal(err)
	}
	return &bench{r, b, Firmware{Driver: d}, store{r, at}}
}

func settings(components ...string) map[string]any {
	sum := sha256.Sum256([]byte(image))
	var list []any
	for _, c := range components {
		list = append(list, map[string]any{"component": c, "url": "https://files.example/" + c + ".ima?sig=t0ken", "checksum": hex.EncodeToString(sum[:])})
	}
	return map[string]any{"settings": list}
}

// mostLooks is more than a step takes: it ends by itself.
const mostLooks = 700

// run runs the step to its end, as the conductor does: it tries again where that may help.
func (n *bench) run(t *testing.T, args map[string]any) error {
	t.Helper()
	step, failed := n.f.NamedSteps(n.Node)[0], 0
	if err := step.Check(n.Node, args); err != nil {
		return err
	}
	for range mostLooks {
		task := n.Task(nil)
		task.Args, task.Images = args, n.s
		out, err := step.Run(t.Context(), task)
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
		failed = 0
	}
	t.Fatalf("the step has not ended after %d looks", mostLooks)
	return nil
}

// Both components are written one after the other; each shows its new version, and nothing is told before.
func TestUpdate(t *testing.T) {
	for name, state := range map[string]func(int) int{"it says that it is done": nil, "it goes on to say that it is at it": func(int) int { return 0 }} {
		t.Run(name, func(t *testing.T) {
			n := newBench(t)
			n.b.states = state
			if err := n.run(t, settings(bmcs, bios)); err != nil {
				t.Fatal(err)
			}
			if string(n.b.file) != image || n.b.upgrades != 2 || n.b.resets != 1 || n.b.flashing {
				t.Errorf("it got %q, began %d upgrades, was reset %d times and is in its mode for firmware: %t", n.b.file, n.b.upgrades, n.b.resets, n.b.flashing)
			}
			if want := []string{"power power on", "power power off"}; !slices.Equal(n.Writes("power"), want) {
				t.Errorf("the machine was %q, want %q: it was off", n.Writes("power"), want)
			}
			of := hardware.Component{Vendor: "ASRockRack", Model: "E3C246D4I-NL", Serial: "197965920000514"}
			first, second := of, of
			first.Name, first.Current, first.Flashed = bios, "L2.21A", "L2.21A"
			second.Name, second.Current, second.Flashed = bmcs, "0.03.00", "0.03.00"
			if want := []hardware.Component{first, second}; !slices.Equal(n.Observed.Firmware, want) {
				t.Errorf("observed %+v, want %+v", n.Observed.Firmware, want)
			}
			if len(n.Rig.Busy) > 0 {
				t.Errorf("the BMC is said to be busy with %q", n.Rig.Busy)
			}
			if text := strings.Join(n.Phases, "\n"); strings.Contains(text, "t0ken") || !strings.Contains(text, "files.example/bmc.ima") {
				t.Errorf("the history tells %s", text)
			}
			if err := n.f.Close(context.WithoutCancel(t.Context())); err != nil || len(n.b.sessions) > 0 {
				t.Errorf("%v, %d sessions stay", err, len(n.b.sessions))
			}
		})
	}
}

// What ends otherwise, each with what is told of it.
func TestUpdatesThatEndOtherwise(t *testing.T) {
	for _, c := range []struct {
		name      string
		set       func(*bench)
		component string
		want      error
		says      string // of the error; empty: the step ends well
		history   string
		upgrades  int
		resets    int
	}{
		{"a file that the BMC does not take", func(n *bench) { n.b.bad = true }, bmcs, nil, "Firmware Image Verification Failed", "restarts to leave the mode", 0, 1},
		{"a BMC that stays as it is, and told that it has written", func(n *bench) { n.b.versions = map[string]string{bmcs: "0.03.00", bios: "L2.07B"} }, bmcs, nil, "", "firmware unchanged: bmc", 1, 1},
		{"a BMC that tells nothing and does nothing", func(n *bench) { n.b.orphaned = true }, bmcs, nil, "nothing tells that the BMC has written", "", 1, 1},
		{"a BIOS of which the BMC tells nothing", func(n *bench) { n.b.mute = true }, bios, nil, "", "it shows version L2.21A", 1, 0},
		{"a BIOS whose order is answered with nothing", func(n *bench) { n.b.terse = true }, bios, nil, "", "firmware in doubt: bios", 1, 0},
		{"a BIOS that is not written", func(n *bench) { n.b.orphaned = true }, bios, nil, "nothing tells that the BMC has written", "restart needed", 1, 0},
		{"a board without a version", func(n *bench) { n.b.versions[bios] = " " }, bios, driver.ErrUnsupported, "no version of its bios", "", 0, 0},
		{"a rack that cannot fetch it", func(n *bench) {
			n.Fail = func(call string) error {
				return map[string]error{"prepare_image": errors.New("no such file")}[call]
			}
		}, bios, nil, "fetch the firmware files.example/bios.ima: no such file", "", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newBench(t)
			c.set(n)
			err := n.run(t, settings(c.component))
			switch {
			case c.says == "" && err != nil, c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "t0ken")), c.want != nil && !errors.Is(err, c.want):
				t.Errorf("%v; want %v that says %q", err, c.want, c.says)
			}
			if text := strings.Join(n.Phases, "\n"); !strings.Contains(text, c.history) {
				t.Errorf("the history tells %s; want %q", text, c.history)
			}
			if n.b.upgrades != c.upgrades || n.b.resets != c.resets || n.b.flashing {
				t.Errorf("%d upgrades and %d resets, want %d and %d; in its mode for firmware: %t", n.b.upgrades, n.b.resets, c.upgrades, c.resets, n.b.flashing)
			}
			if len(n.Rig.Busy) > 0 {
				t.Errorf("the BMC is said to be busy with %q", n.Rig.Busy)
			}
			for _, o := range n.Observed.Firmware {
				if o.Flashed != "" && o.Flashed != "L2.21A" {
					t.Errorf("%s is told as flashed with %s", o.Name, o.Flashed)
				}
			}
		})
	}
}

// While the BMC takes in firmware for itself, nothing else is asked of it: it would refuse, and take no new session.
func TestNothingIsAskedOfABMCThatIsWritten(t *testing.T) {
	n := newBench(t)
	task := n.Task(nil)
	task.Args, task.Images = settings(bmcs), n.s
	if out, err := n.f.update(t.Context(), task); err != nil {
		t.Fatal(out, err)
	}
	before := len(n.b.paths)
	_, err := n.f.PowerState(t.Context(), n.Node)
	if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "it takes in firmware for itself") || len(n.b.paths) != before {
		t.Errorf("%v; it was asked %q", err, n.b.paths[before:])
	}
	if err := n.run(t, settings(bmcs)); err != nil {
		t.Fatal(err)
	}
	if _, err := n.f.PowerState(t.Context(), n.Node); err != nil || n.b.opened != 2 {
		t.Errorf("%v, %d logins", err, n.b.opened)
	}
}

// Each write of an update asks the fence, also in the middle of it. A rackd that has lost the node writes nothing more, and its successor
// hands nothing over a second time.
func TestUpdatesAskTheFence(t *testing.T) {
	for _, component := range []string{bmcs, bios} {
		t.Run(component, func(t *testing.T) {
			t.Parallel()
			whole := newBench(t)
			if err := whole.run(t, settings(component)); err != nil {
				t.Fatal(err)
			}
			ended := map[bool]int{}
			for left := range int(whole.Checks.Load()) {
				n := newBench(t)
				n.LoseAfter(left)
				if err := n.run(t, settings(component)); !errors.Is(err, driver.ErrFenced) {
					t.Fatalf("the fence is lost after %d checks: %v", left, err)
				}
				if writes := n.b.Play(&drivertest.Machine{}).Writes(); writes > left {
					t.Errorf("%d writes left by %d checks", writes, left)
				}
				n.LoseAfter(1 << 30)
				err := n.run(t, settings(component))
				if err != nil && !strings.Contains(err.Error(), "nothing tells that the BMC has written") {
					t.Errorf("a successor after %d checks: %v", left, err)
				}
				if written := n.b.versions[component] == whole.b.versions[component]; n.b.upgrades > 1 || err == nil && !written || n.b.flashing {
					t.Errorf("a successor after %d checks: %d upgrades, version %s, in its mode for firmware: %t", left, n.b.upgrades, n.b.versions[component], n.b.flashing)
				}
				ended[err == nil]++
			}
			t.Logf("%d ends were good, and %d not known", ended[true], ended[false])
		})
	}
}

// Each request of an update may come to grief. The BMC never gets more than one order to write, and what is told as done is written.
// Answers that are late, half or there twice are the transport's, which TestConformance has.
func TestEachRequestOfAnUpdate(t *testing.T) {
	for _, component := range []string{bmcs, bios} {
		t.Run(component, func(t *testing.T) {
			t.Parallel()
			run := func(how drivertest.Mishap, at int) (requests, orders int, version string, err error) {
				n := newBench(t)
				n.b.Spoiler.Spoil(how, at)
				err = n.run(t, settings(component))
				requests = n.b.Spoiler.Asked()
				if err := n.f.Close(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
				if text := strings.Join(n.Phases, "\n"); strings.Contains(text, "could not have it restart") {
					t.Errorf("mishap %d of request %d: a session that is over was asked for a restart: %s", how, at, text)
				}
				n.b.Set(func() { orders, version = n.b.upgrades, n.b.versions[component] })
				n.b.Server.Close()
				return requests, orders, version, err
			}
			most, orders, old, err := run(drivertest.Sound, 0)
			if err != nil || orders != 1 || most < 8 {
				t.Fatalf("where all goes well: %d requests, %d orders, version %s, %v", most, orders, old, err)
			}
			ended := map[bool]int{}
			for _, how := range []drivertest.Mishap{drivertest.Lost, drivertest.Dropped, drivertest.Reset} {
				for at := 1; at <= most; at++ {
					_, orders, version, err := run(how, at)
					what := fmt.Sprintf("mishap %d of request %d of %d", how, at, most)
					ended[err == nil]++
					switch {
					case orders > 1:
						t.Errorf("%s: the BMC got %d orders", what, orders)
					case err == nil && version != old:
						t.Errorf("%s: it is told as done, and the version is %s", what, version)
					case err != nil && !strings.Contains(err.Error(), "nothing tells that the BMC has written"):
						t.Errorf("%s, %d orders: %v", what, orders, err)
					}
				}
			}
			t.Logf("%d requests: %d ends were good, and %d not known", most, ended[true], ended[false])
			if ended[false] > most {
				t.Errorf("%d of %d ends are not known", ended[false], ended[true]+ended[false])
			}
		})
	}
}

// A BMC takes a minute to begin its mode for firmware, which is longer than it may take for any other answer.
func TestASlowBMCIsWaitedForWhileItTakesFirmware(t *testing.T) {
	t.Parallel()
	const patience = 3 * time.Second
	n := newBench(t)
	d := New(bmc.WebOptions{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Pace: 1000, AnswerTimeout: patience, ConnectTimeout: patience, Log: drivertest.Logger(t)})
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(t.Context())) })
	d.rest, n.f.Driver = 0, d
	late := func() { <-time.After(patience + time.Second) }
	n.b.Set(func() {
		n.b.answers["/api/maintenance/flash"] = func(http.ResponseWriter) { late(); n.b.flashing = true }
		n.b.answers["/api/chassis-status"] = func(http.ResponseWriter) { late() }
	})
	if err := n.run(t, settings(bmcs)); err != nil {
		t.Error(err)
	}
	if _, err := d.PowerState(t.Context(), n.Node); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("any other answer that comes late: %v", err)
	}
}

func TestSettingsOfUpdates(t *testing.T) {
	n := newBench(t)
	with := func(change func(map[string]any)) any {
		one := settings(bios)["settings"].([]any)[0].(map[string]any)
		change(one)
		return []any{one}
	}
	for says, arg := range map[string]any{
		"is not a list":               "bios",
		"is not a list of firmware":   []any{},
		`no component "cpld"`:         with(func(m map[string]any) { m["component"] = "cpld" }),
		"none of http, https or file": with(func(m map[string]any) { m["url"] = "tftp://files.example/secret" }),
		"is no sha256":                with(func(m map[string]any) { delete(m, "checksum") }),
		"and no sha512":               with(func(m map[string]any) { m["checksum"] = strings.Repeat("x", 64) }),
		`no "wait"`:                   with(func(m map[string]any) { m["wait"] = 3.0 }),
	} {
		err := n.f.NamedSteps(n.Node)[0].Check(n.Node, map[string]any{"settings": arg})
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v; want an ErrInvalid that says %q", err, says)
		}
	}
}
