package redfish

import (
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// The driver keeps the contract, however it logs in.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, auth := range []string{"session", "basic", "auto"} {
		t.Run(auth, func(t *testing.T) {
			drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine { return machineOf(t, auth, nil) })
		})
	}
}

// trouble is what the emulator does besides answering.
type trouble struct {
	mu         sync.Mutex
	lose, deny bool
	hang       chan struct{}
	whileRead  func()
	refused    int
	system     string
}

// machineOf is a machine of the emulator, which shows itself as a recorded BMC does where one is given.
func machineOf(t *testing.T, auth string, recorded spoken) *drivertest.Machine {
	e, k := newEmulator(t), &trouble{system: systemAt}
	d := newDriver(t, Options{ReadTimeout: time.Minute, Pace: 1000, Log: drivertest.Logger(t)})
	e.boot["BootSourceOverrideMode"] = "UEFI"
	if recorded != nil {
		e.play(t, recorded)
		e.power, k.system = "Off", e.system
	}
	e.spoiler.Restart = func() { e.set(func() { clear(e.sessions) }) }
	inner := http.HandlerFunc(e.answer)
	e.hook = func(w http.ResponseWriter, r *http.Request) bool { return k.serve(w, r, inner) }
	t.Cleanup(func() { k.set(func() { k.release() }) })
	system, second := map[string]any{fieldAuth: auth}, (func() *node.Document)(nil)
	without := map[string]string{"MediaCertificate": "its emulator has no virtual drive: ops/virtual/vbmc has one"}
	if auth == "basic" {
		e.set(func() { e.other = &machine{"Off", maps.Clone(e.boot)} })
		system[fieldSystem] = "/redfish/v1/Systems/1"
		second = func() *node.Document {
			n := e.node(map[string]any{fieldAuth: auth, fieldSystem: "/redfish/v1/Systems/2"})
			n.UUID, n.Name = "b3d2", "web2"
			return n
		}
	} else {
		without["Second"] = "the BMC with two systems is that of TestConformance/basic: here the driver looks the only one up"
	}
	return &drivertest.Machine{
		Power: d, Management: d, Node: e.node(system), Secret: "s3cret-pass", Without: without, Second: second,
		Port:      func() string { u, _ := url.Parse(e.URL); return u.Port() },
		Writes:    func() int { return len(e.written()) },
		Lose:      func() { k.set(func() { k.lose = true }) },
		Silence:   e.Server.Close,
		Spoil:     e.spoiler.Spoil,
		Asked:     e.spoiler.Asked,
		Sessions:  e.live,
		Restart:   e.spoiler.Forget,
		Hang:      func() { k.set(func() { k.hang = make(chan struct{}) }) },
		WhileRead: func(do func()) { k.set(func() { k.whileRead = do }) },
		Deny: func() {
			k.set(func() { k.deny = true })
			e.set(func() { e.password = "an0ther-pass"; clear(e.sessions) })
		},
		Logins: func() (n int) { k.set(func() { n = k.refused }); return n },
		Corrected: func() *node.Document {
			other := maps.Clone(system)
			other[fieldPassword] = "an0ther-pass"
			return e.node(other)
		},
		Forget: func() {
			e.set(func() { e.boot["BootSourceOverrideEnabled"], e.boot["BootSourceOverrideTarget"] = "Disabled", "None" })
		},
	}
}

func (k *trouble) set(do func()) { k.mu.Lock(); defer k.mu.Unlock(); do() }

// release lets requests end that hang. The caller holds mu.
func (k *trouble) release() {
	if k.hang != nil {
		close(k.hang)
		k.hang = nil
	}
}

// serve is a hook of the emulator.
func (k *trouble) serve(w http.ResponseWriter, r *http.Request, inner http.Handler) bool {
	login := r.URL.Path == "/redfish/v1/SessionService/Sessions" && r.Method == http.MethodPost
	order := !login && (r.Method == http.MethodPost || r.Method == http.MethodPatch)
	k.mu.Lock()
	hang, lose := k.hang, order && k.lose
	do := k.whileRead
	if r.URL.Path != k.system || r.Method != http.MethodGet {
		do = nil
	}
	if do != nil {
		k.whileRead = nil
	}
	if lose {
		k.lose = false
	}
	if _, pass, basic := r.BasicAuth(); k.deny && (login || basic && pass == "s3cret-pass") {
		k.refused++
	}
	k.mu.Unlock()
	switch {
	case hang != nil:
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case lose:
		k.carryOut(r, inner)
		panic(http.ErrAbortHandler)
	case do != nil:
		do()
	}
	return false
}

// carryOut lets the emulator do what a request asks for, and drops the answer.
func (k *trouble) carryOut(r *http.Request, inner http.Handler) {
	inner.ServeHTTP(discard{http.Header{}}, r)
}
