package daemon

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/conductor"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootscript"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// nothingYet are the documents of a rackd that has read none.
type nothingYet struct{ conductor.Documents }

func (nothingYet) Node(string) *node.Document      { return nil }
func (nothingYet) NodeByMAC(string) *node.Document { return nil }

// lost is a lease of that age which has ended; held is one that has not.
type lost struct {
	conductor.Membership
	age  time.Duration
	held bool
}

func (l lost) Age() time.Duration { return l.age }
func (l lost) Check() error {
	if l.held {
		return nil
	}
	return errors.New("the lease is not held")
}

// A rackd that starts again is asked by machines before it has read its nodes. A machine that was told that it is no node ended
// its boot, and its deploy waited for an agent until its deadline.
func TestAMachineAsksAgainWhereNodesAreNotReadYet(t *testing.T) {
	const mac, id = "52:54:00:00:00:01", "0f5ab8c4-4ca5-4a53-8d02-e1e2b7a5b1f1"
	for name, c := range map[string]struct {
		members lost
		again   bool
	}{
		"it has just started":                {lost{age: -1}, true},
		"it has lost the bus a while ago":    {lost{age: time.Minute}, true},
		"the bus has been away for long":     {lost{age: time.Hour}, false},
		"it has read all, and there is none": {lost{held: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			d := directory{c: conductor.New(conductor.Config{Documents: nothingYet{}, Members: c.members, Log: log}), asked: true}
			s := &bootscript.Scripts{Directory: d, Journal: noJournal{}, Log: log,
				Ramdisk: func(netboot.Machine) ipxescript.Ramdisk {
					return ipxescript.Ramdisk{Server: ipxescript.Server{HTTP: "http://192.0.2.1:8080"}}
				}}
			from := netip.MustParseAddr("192.0.2.9")
			byMAC, err := s.ForMAC(mac, "http", from)
			if err != nil {
				t.Fatal(err)
			}
			byUUID, err := s.ForUUID(id, "http", from)
			if err != nil {
				t.Fatal(err)
			}
			for named, script := range map[string]string{"mac=" + mac: byMAC, "uuid=" + id: byUUID} {
				asks := strings.Contains(strings.ReplaceAll(script, "%3A", ":"), "chain --replace http://192.0.2.1:8080/boot/script?"+named)
				if asks != c.again {
					t.Errorf("asks again: %v, want %v:\n%s", asks, c.again, script)
				}
			}
			want := bootscript.ErrUnknown
			if c.again {
				want = bootscript.ErrLater
			}
			if _, err := s.Program(mac, false, from); !errors.Is(err, want) {
				t.Errorf("the program for firmware: %v, want %v", err, want)
			}
			if _, err := s.Parameters(mac, from); !errors.Is(err, want) {
				t.Errorf("the parameters of an agent: %v, want %v", err, want)
			}
			if _, err := s.OwnFile(mac, netboot.OwnKernel, from); !errors.Is(err, want) {
				t.Errorf("a file of its own: %v, want %v", err, want)
			}
			if _, ok := (directory{c: d.c}).ByMAC(mac); ok {
				t.Error("DHCP takes the machine for a node's")
			}
		})
	}
}

// noJournal forgets what machines do.
type noJournal struct{}

func (noJournal) Seen(string, string, string)               {}
func (noJournal) Leased(string, netip.Addr, string, string) {}
