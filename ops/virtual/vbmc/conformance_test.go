package vbmc

import (
	"context"
	"encoding/pem"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	redfishdriver "github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// mishaps are the faults of this BMC by their names in the contract.
var mishaps = map[drivertest.Mishap]Spoilt{drivertest.Sound: Sound, drivertest.Late: Late, drivertest.Lost: Lost, drivertest.Half: Half,
	drivertest.Twice: Twice, drivertest.Dropped: Dropped, drivertest.Reset: Reset}

// driven is a computer with a drive for CDs.
type driven struct {
	fake
	image string
}

func (d *driven) Medium() (string, error) { return d.image, nil }
func (d *driven) InsertMedium(_ context.Context, image string) error {
	d.image = image
	return nil
}
func (d *driven) EjectMedium(context.Context) error { d.image = ""; return nil }

// The driver redfish keeps the contract of drivers on the virtual BMC, too.
func TestRedfishDriverConforms(t *testing.T) {
	t.Parallel()
	servers, err := SelfSigned("rackd")
	if err != nil {
		t.Fatal(err)
	}
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: servers.Certificate[0]}))
	drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
		computer := &driven{}
		var lose atomic.Bool
		// The BMC answers for one password, and after a change of it for another.
		bmcOf := func(password string) *BMC {
			var b *BMC
			var err error
			b, err = New(Config{Username: "admin", Password: password, UEFI: true, Name: "uefi-0", UUID: "4c4c4544-0000-2010-8020-80c04f000001", Dial: (&net.Dialer{}).DialContext,
				Begin: func(w Write) func(int) {
					end := b.Journal.begin(w)
					return func(status int) {
						end(status)
						if !strings.HasPrefix(w.Path, sessionsPath) && lose.CompareAndSwap(true, false) {
							panic(http.ErrAbortHandler) // it is done, and the answer is lost
						}
					}
				}}, computer)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		before, after := bmcOf("s3cret-pass"), bmcOf("an0ther-pass")
		var now atomic.Pointer[BMC]
		now.Store(before)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() {
			served <- ServeMany(ctx, l, slog.New(slog.DiscardHandler), func(net.Addr) *BMC { return now.Load() })
		}()
		d := redfishdriver.New(redfishdriver.Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Pace: 10_000, Log: drivertest.Logger(t)})
		t.Cleanup(func() {
			before.Faults.Hang(false)
			if err := d.Close(t.Context()); err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
		before.Faults.Lateness(drivertest.Lateness)
		var at, asked atomic.Int64
		spoil := func(how drivertest.Mishap, number int) {
			at.Store(int64(number))
			asked.Store(0)
			before.Faults.Spoil(func(*http.Request) Spoilt {
				if asked.Add(1) == at.Load() {
					return mishaps[how]
				}
				return Sound
			})
		}
		nodeWith := func(password string) *node.Document {
			return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{
				"redfish_address": "https://" + l.Addr().String(), "redfish_username": "admin", "redfish_password": password, "redfish_verify_ca": false}}
		}
		return &drivertest.Machine{
			Power: d, Management: d, Node: nodeWith("s3cret-pass"), Secret: "s3cret-pass", MediaCertificate: certificate,
			Writes: func() (n int) {
				for _, w := range append(before.Journal.Writes(), after.Journal.Writes()...) {
					if !strings.HasPrefix(w.Path, sessionsPath) {
						n++
					}
				}
				return n
			},
			Lose:     func() { lose.Store(true) },
			Silence:  func() { before.Faults.Refuse(true) },
			Spoil:    spoil,
			Asked:    func() int { return int(asked.Load()) },
			Restart:  before.sessions.forget,
			Sessions: func() int { return len(before.sessions.list()) },
			Hang:     func() { before.Faults.Hang(true) },
			Deny:     func() { now.Store(after) },
			Logins: func() (n int) {
				for _, w := range append(before.Journal.Matching(sessionsPath), after.Journal.Matching(sessionsPath)...) {
					if w.Status == http.StatusUnauthorized {
						n++
					}
				}
				return n
			},
			Corrected: func() *node.Document { return nodeWith("an0ther-pass") },
			Forget: func() {
				if err := computer.SetBootOverride("", false); err != nil {
					t.Error(err)
				}
			},
			WhileRead: func(do func()) {
				var once sync.Once
				before.Faults.Spoil(func(r *http.Request) Spoilt {
					if r.Method == http.MethodGet {
						once.Do(do)
					}
					return Sound
				})
			},
			Port:    func() string { _, port, _ := net.SplitHostPort(l.Addr().String()); return port },
			Without: map[string]string{"Second": "a virtual BMC has one machine: rackd/driver/redfish has a BMC with two"},
		}
	})
}
