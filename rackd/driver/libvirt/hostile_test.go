package libvirt

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// liar is a host whose libvirt answers each call as it likes.
func liar(t *testing.T, answer func(call []byte) []byte) *node.Document {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for {
					size := make([]byte, 4)
					if _, err := io.ReadFull(c, size); err != nil {
						return
					}
					call := make([]byte, binary.BigEndian.Uint32(size))
					copy(call, size)
					if _, err := io.ReadFull(c, call[4:]); err != nil {
						return
					}
					if _, err := c.Write(answer(call)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{fieldURI: "test:///default?socket=" + socket, fieldDomain: "web1"}}
}

func word(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// reply answers a call with a payload.
func reply(call []byte, payload ...byte) []byte {
	b := append([]byte(nil), call[:28]...)
	binary.BigEndian.PutUint32(b[16:], 1)
	b = append(b, payload...)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	return b
}

// honest answers a login as libvirt does, and the rest by then.
func honest(then func(call []byte) []byte) func(call []byte) []byte {
	return func(call []byte) []byte {
		switch binary.BigEndian.Uint32(call[ofProc:]) {
		case 1: // connect
			return reply(call)
		case 66: // the ways to log in
			return reply(call, append(word(1), word(0)...)...)
		}
		return then(call)
	}
}

// machineOff answers what is asked of the machine web1, which is off.
func machineOff(call []byte) []byte {
	if binary.BigEndian.Uint32(call[ofProc:]) == 212 { // its state
		return reply(call, append(word(5), word(0)...)...)
	}
	return reply(call, append(append(word(4), "web1"...), make([]byte, 20)...)...)
}

// What a host sends is an error of that host at worst: rackd does not end, and makes no room for what is not sent.
func TestAHostThatLiesAboutLengthsEndsNothing(t *testing.T) {
	for name, answer := range map[string]func(call []byte) []byte{
		"a packet shorter than its header": func(call []byte) []byte { return append(word(4), call[4:28]...) },
		"a packet of 3 GiB":                func(call []byte) []byte { return append(word(3<<30), call[4:28]...) },
		"2 billion ways to log in":         func(call []byte) []byte { return reply(call, word(1<<31-1)...) },
		"a name of 2 GB":                   honest(func(call []byte) []byte { return reply(call, word(1<<31-4)...) }),
		"an error of 2 GB": honest(func(call []byte) []byte {
			b := reply(call, append(append(word(42), word(0)...), append(word(1), word(1<<31-4)...)...)...)
			b[ofStatus+3] = statusError
			return b
		}),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, Options{Networks: loopback, CallTimeout: 5 * time.Second})
			if state, err := d.PowerState(t.Context(), liar(t, answer)); err == nil || !strings.Contains(err.Error(), "which no libvirt sends") || strings.Count(err.Error(), "b3d1") != 1 {
				t.Errorf("%q, %v", state, err)
			}
		})
	}
}

// Events, and answers that come twice, stop nothing.
func TestAHostThatSaysMoreThanWasAskedIsHeard(t *testing.T) {
	d := newDriver(t, Options{Networks: loopback, CallTimeout: 5 * time.Second})
	n := liar(t, honest(func(call []byte) []byte {
		event, answer := reply(call), machineOff(call)
		event[ofType+3] = 2
		return slices.Concat(event, answer, answer, answer)
	}))
	for range 3 {
		if state, err := d.PowerState(t.Context(), n); err != nil || state != driver.PowerOff {
			t.Errorf("%q, %v", state, err)
		}
	}
}

// Two libvirts of one host are two: the second's machine of the same name is another machine.
func TestAnotherSocketOfAHostIsAnotherSession(t *testing.T) {
	at := func(uri string) target {
		n := &node.Document{UUID: "b3d1", DriverInfo: map[string]any{fieldURI: uri, fieldDomain: "web1", fieldPassword: "s3cret", fieldHostKey: hostKey}}
		parsed, err := parse(n)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	one, other := at("qemu+ssh://127.0.0.1/system"), at("qemu+ssh://127.0.0.1/system?socket=/run/other/libvirt-sock")
	if one.sum() == other.sum() {
		t.Error("a session with the one libvirt of a host serves nodes of the other")
	}
	if a, b := at("qemu+ssh://127.0.0.1/system"), at("qemu+ssh://127.0.0.1/session"); a.sum() == b.sum() {
		t.Error("a session of the system's machines serves those of a user")
	}
}

// Who may change a node's ports, and not where its secrets are sent, must not choose the machine by them: a MAC address of any other
// machine of the host would do.
func TestPortsDoNotChooseTheMachine(t *testing.T) {
	n := &node.Document{UUID: "b3d1", DriverInfo: map[string]any{fieldURI: "qemu+ssh://127.0.0.1/system", fieldPassword: "s3cret", fieldHostKey: hostKey},
		Ports: []node.Port{{Address: "52:54:00:00:00:01"}}}
	if err := newDriver(t, Options{Networks: loopback}).Validate(n); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("%v: the machine is found by the node's ports", err)
	}
}
