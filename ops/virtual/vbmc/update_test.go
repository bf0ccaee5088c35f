package vbmc

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	redfishdriver "github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// serveFiles serves files to those who know the password, and counts how often each was fetched whole.
func serveFiles(t *testing.T, files map[string][]byte) (at func(name string) string, fetched func() int) {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		body, has := files[strings.TrimPrefix(r.URL.Path, "/")]
		switch {
		case password != "files-word":
			w.WriteHeader(http.StatusUnauthorized)
		case !has:
			http.NotFound(w, r)
		default:
			if _, err := w.Write(body); err == nil {
				n.Add(1)
			}
		}
	}))
	t.Cleanup(s.Close)
	return func(name string) string { return strings.Replace(s.URL, "://", "://files:files-word@", 1) + "/" + name }, func() int { return int(n.Load()) }
}

// within waits until something is so.
func within(t *testing.T, limit time.Duration, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

func orderUpdate(t *testing.T, c *gofish.APIClient, uri string) error {
	t.Helper()
	s, err := c.Service.UpdateService()
	if err != nil {
		return err
	}
	_, err = s.SimpleUpdate(&schemas.UpdateServiceSimpleUpdateParameters{ImageURI: uri, TransferProtocol: schemas.HTTPTransferProtocolType})
	return err
}

// tasksOf are the tasks that a BMC shows.
func tasksOf(c *gofish.APIClient) ([]*schemas.Task, error) {
	s, err := c.Service.Tasks()
	if err != nil {
		return nil, err
	}
	return s.Tasks()
}

// listed are the versions of the firmware list.
func listed(t *testing.T, c *gofish.APIClient) string {
	t.Helper()
	s, err := c.Service.UpdateService()
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.FirmwareInventory()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range list {
		all = append(all, f.ID+" "+f.Version)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// A BMC that takes its new firmware starts again: the connections break, sessions and tasks are gone, it is silent for a while. Then it
// shows the version.
func TestTheBMCRestartsWithItsNewFirmware(t *testing.T) {
	t.Parallel()
	b, _, address := serve(t)
	at, fetched := serveFiles(t, map[string][]byte{"bmc": FirmwareFile(BMCFirmware, "2.0.0")})
	const away = 300 * time.Millisecond
	b.Faults.Away(away)
	b.FirmwareTakes(time.Second) // the order is answered before its connection breaks
	c, err := gofish.Connect(gofish.ClientConfig{Endpoint: "https://" + address, Username: "admin", Password: "secret-word", Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := listed(t, c); got != "BIOS 1.0.0, BMC 1.0.0" {
		t.Errorf("it lists %s", got)
	}
	// A connection that does nothing breaks as well.
	idle, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	if err := orderUpdate(t, c, at("bmc")); err != nil {
		t.Fatal(err)
	}
	if err := idle.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var timeout interface{ Timeout() bool }
	if _, err := idle.Read(make([]byte, 1)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the connection did not break: %v", err)
	}
	broke := time.Now()
	answers := func() bool {
		resp, err := c.Get(rootPath)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return true
	}
	within(t, 10*time.Second, "it answers again", answers)
	if took := time.Since(broke); took < away/2 { // on a busy host the first answer may be asked for when it is back
		t.Errorf("it was away for %s", took)
	}
	var denied *schemas.Manager
	if denied, err = schemas.GetManager(c, managerPath); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("the session of before: %+v, %v", denied, err)
	}
	c, err = gofish.Connect(gofish.ClientConfig{Endpoint: "https://" + address, Username: "admin", Password: "secret-word", Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Logout()
	if got := listed(t, c); got != "BIOS 1.0.0, BMC 2.0.0" || fetched() != 1 || !slices.Equal(b.Flashes(), []Flash{{BMCFirmware, "2.0.0"}}) {
		t.Errorf("it lists %s; the file was fetched %d times; written was %v", got, fetched(), b.Flashes())
	}
	if tasks, err := tasksOf(c); err != nil || len(tasks) != 0 {
		t.Errorf("it knows tasks from before its start: %v, %v", tasks, err)
	}
	for _, w := range b.Journal.Writes() {
		if strings.Contains(w.Body, "files-word") {
			t.Errorf("the journal has a password: %s", w.Body)
		}
	}
}

// Firmware of the BIOS waits for the machine's next start, also over a start of the BMC. Another order is refused meanwhile.
func TestBIOSFirmwareWaitsForTheMachine(t *testing.T) {
	b, computer, address := serve(t)
	at, fetched := serveFiles(t, map[string][]byte{"bios": FirmwareFile(BIOSFirmware, "3.1")})
	b.Faults.Away(time.Millisecond)
	connected := func() *gofish.APIClient {
		var c *gofish.APIClient
		within(t, 10*time.Second, "it answers", func() (ok bool) {
			var err error
			c, err = gofish.Connect(gofish.ClientConfig{Endpoint: "https://" + address, Username: "admin", Password: "secret-word", Insecure: true, BasicAuth: true})
			return err == nil
		})
		return c
	}
	if err := computer.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := connected()
	if err := orderUpdate(t, c, at("bios")); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "the task is pending", func() bool {
		list, err := tasksOf(c)
		return err == nil && len(list) == 1 && list[0].TaskState == schemas.PendingTaskState
	})
	if err := orderUpdate(t, c, at("bios")); err == nil || !strings.Contains(err.Error(), "409") {
		t.Errorf("a second order: %v, want 409", err)
	}
	b.Restart()
	c = connected()
	if err := orderUpdate(t, c, at("bios")); err == nil || !strings.Contains(err.Error(), "409") {
		t.Errorf("a second order after a start of the BMC: %v, want 409", err)
	}
	if got := listed(t, c); got != "BIOS 1.0.0, BMC 1.0.0" || len(b.Flashes()) != 0 {
		t.Errorf("before the machine's start it lists %s, written was %v", got, b.Flashes())
	}
	if err := computer.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := schemas.GetComputerSystem(c, systemPath)
	if err != nil || s.BiosVersion != "3.1" || fetched() != 1 || !slices.Equal(b.Flashes(), []Flash{{BIOSFirmware, "3.1"}}) {
		t.Errorf("after it %+v, %v; fetched %d times; written was %v", s, err, fetched(), b.Flashes())
	}
	if err := orderUpdate(t, c, at("bios")); err != nil {
		t.Errorf("an order after it: %v", err)
	}
}

// A file that is not there, or is none, fails the task, and nothing is written.
func TestFirmwareThatIsNotTaken(t *testing.T) {
	b, _, address := serve(t)
	good := FirmwareFile(BMCFirmware, "2.0.0")
	at, _ := serveFiles(t, map[string][]byte{"half": good[:len(good)/2], "none": []byte("<html>\nnot found\n"), "other": FirmwareFile("backplane", "7"),
		"changed": append(slices.Clone(good[:len(good)-1]), '!'), "empty": {}})
	s := connect(t, address, true)
	c := s.GetClient().(*gofish.APIClient)
	for _, file := range []string{"half", "none", "other", "changed", "empty", "missing"} {
		if err := orderUpdate(t, c, at(file)); err != nil {
			t.Fatal(err)
		}
		within(t, 10*time.Second, file+" fails", func() bool {
			list, err := tasksOf(c)
			return err == nil && !slices.ContainsFunc(list, func(k *schemas.Task) bool { return k.TaskState != schemas.ExceptionTaskState })
		})
	}
	for _, uri := range []string{"", "ftp://host/file", "file", "tftp://host/bmc"} {
		if err := orderUpdate(t, c, uri); err == nil || !strings.Contains(err.Error(), "400") {
			t.Errorf("%q: %v, want 400", uri, err)
		}
	}
	if list, err := tasksOf(c); err != nil || len(list) != 6 || len(b.Flashes()) != 0 || b.version(BMCFirmware) != firstVersion {
		t.Errorf("%d tasks, %v; written was %v", len(list), err, b.Flashes())
	}
}

// A start of the BMC ends the update that has not written yet.
func TestAnUpdateThatARestartCutsShort(t *testing.T) {
	b, _, address := serve(t)
	at, fetched := serveFiles(t, map[string][]byte{"bmc": FirmwareFile(BMCFirmware, "2.0.0")})
	b.Faults.Away(time.Millisecond)
	b.FirmwareTakes(time.Hour)
	c := connect(t, address, true).GetClient().(*gofish.APIClient)
	if err := orderUpdate(t, c, at("bmc")); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "the file is fetched", func() bool { return fetched() == 1 })
	b.Restart()
	b.FirmwareTakes(time.Second) // the order is answered before its connection breaks
	within(t, 10*time.Second, "another order is taken", func() bool { return orderUpdate(t, c, at("bmc")) == nil })
	within(t, 10*time.Second, "it is written", func() bool { return len(b.Flashes()) > 0 })
	if fetched() != 2 || len(b.Flashes()) != 1 {
		t.Errorf("fetched %d times; written was %v", fetched(), b.Flashes())
	}
}

// ranOut runs a step until it ends, and again where it fails, as a conductor does. It looks again once the BMC takes calls.
func ranOut(t *testing.T, b *BMC, r *drivertest.Rig, s driver.Step, args map[string]any) error {
	t.Helper()
	failed := 0
	for range 300 {
		k := r.Task(nil)
		k.Args = args
		out, err := s.Run(t.Context(), k)
		if err != nil {
			failed++
		}
		if _, waits := out.Waiting(); failed > s.Retries || err == nil && !waits {
			return err
		}
		within(t, 10*time.Second, "the BMC takes calls", func() bool { return !b.Faults.refusing() })
	}
	t.Fatal("the step never ends")
	return nil
}

// Each request of the driver's update of a component comes to grief in each way. It is told as made only if the BMC has written, and the
// BMC never fetches or writes twice. The BMC restarts after firmware of its own.
func TestEachRequestOfAFirmwareUpdate(t *testing.T) {
	t.Parallel()
	for _, component := range []string{BMCFirmware, BIOSFirmware} {
		t.Run(component, func(t *testing.T) {
			t.Parallel()
			var cases, made, failed, unchanged atomic.Int64
			t.Run("each request", func(t *testing.T) { // it ends when all of its faults have
				for how := Sound; how <= Reset; how++ {
					t.Run(fmt.Sprint("fault ", how), func(t *testing.T) {
						t.Parallel()
						for number := 1; number == 1 || how > Sound; number++ {
							u := spoiltUpdate(t, component, how, number)
							if how > Sound && u.asked < number {
								break // it has no further request
							}
							cases.Add(1)
							what := fmt.Sprintf("request %d: %v; told as flashed: %t; the BMC wrote %d times, fetched %d times and took %d orders; history %q", number, u.err, u.told, u.wrote, u.fetched, u.orders, u.said)
							switch {
							case how <= Late && (u.err != nil || !u.told), u.wrote > 1, u.fetched > 1, u.orders > 1, u.told && u.wrote != 1, u.err == nil && !u.told && u.wrote > 0:
								t.Error(what)
							case strings.Contains(what, "files-word"), strings.Contains(what, "secret-word"):
								t.Errorf("a password is told: %s", what)
							case u.told:
								made.Add(1)
							case u.err == nil:
								unchanged.Add(1)
							case !errors.Is(u.err, driver.ErrUnreachable) && !strings.Contains(u.err.Error(), "it is not known whether the BMC has taken the order"):
								t.Error(what)
							default:
								failed.Add(1)
							}
						}
					})
				}
			})
			t.Logf("%d faults: %d updates told as made, %d failed, %d told as unchanged", cases.Load(), made.Load(), failed.Load(), unchanged.Load())
			if cases.Load() < 60 {
				t.Errorf("only %d faults", cases.Load())
			}
		})
	}
}

// spoiltEnd is what came of an update of which one request was spoilt.
type spoiltEnd struct {
	err                           error
	asked, wrote, fetched, orders int
	told                          bool // as flashed
	said                          []string
}

func spoiltUpdate(t *testing.T, component string, how Spoilt, number int) (e spoiltEnd) {
	t.Helper()
	b, computer, address := serve(t)
	at, fetched := serveFiles(t, map[string][]byte{"f": FirmwareFile(component, "2.0.0")})
	var asked atomic.Int64
	b.Faults.Away(5 * time.Millisecond)
	b.Faults.Lateness(drivertest.Lateness)
	b.Faults.Spoil(func(*http.Request) Spoilt {
		if asked.Add(1) == int64(number) {
			return how
		}
		return Sound
	})
	d := redfishdriver.New(redfishdriver.Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Pace: 10_000, Log: drivertest.Logger(t)})
	r := drivertest.NewRig()
	r.Node.DriverInfo = map[string]any{"redfish_address": "https://" + address, "redfish_username": "admin", "redfish_password": "secret-word", "redfish_verify_ca": false}
	r.Fail = func(call string) error {
		if n := uint64(len(r.Writes("power power on"))); call == "set_power" && n > computer.Starts() {
			return computer.Reset(t.Context())
		}
		return nil
	}
	list := redfishdriver.Firmware{Driver: d}.NamedSteps(r.Node)
	step := list[slices.IndexFunc(list, func(s driver.Step) bool { return s.Name == "update" })]
	e.err = ranOut(t, b, r, step, map[string]any{"settings": []any{map[string]any{"component": component, "url": at("f"), "wait": 60.0}}})
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	e.asked, e.wrote, e.fetched, e.said = int(asked.Load()), len(b.Flashes()), fetched(), append(r.Phases, r.Busy...)
	e.orders = len(slices.DeleteFunc(b.Journal.Matching("SimpleUpdate"), func(w Write) bool { return w.Status != http.StatusAccepted }))
	e.told = slices.ContainsFunc(r.Observed.Firmware, func(c hardware.Component) bool { return c.Name == component && c.Flashed != "" })
	return e
}
