package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// logs has a *lines for each test whose driver logs to Logger.
var logs sync.Map

// lines are what a driver has logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.text.String() }

// Logger is where the drivers of a test log to, at all levels. Conformance looks for the password there.
func Logger(t *testing.T) *slog.Logger {
	l := &lines{}
	known, there := logs.LoadOrStore(t, l)
	if there {
		l = known.(*lines)
	} else {
		t.Cleanup(func() { logs.Delete(t) })
	}
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// checkReasons prints why hooks are nil, and refuses one without a reason as well as a reason without need.
func checkReasons(t *testing.T, m *Machine) {
	_, logs := logs.Load(t)
	has := m.has(logs)
	for _, hook := range []string{"Management", "Lose", "Silence", "Hang", "Spoil", "WhileRead", "Deny", "Second", "Port", "Log"} {
		is := has[hook]
		switch why := m.Without[hook]; {
		case !is && why == "":
			t.Errorf("%s is nil, and Without does not say why: its checks would be left out unseen", hook)
		case is && why != "":
			t.Errorf("%s is there, and Without says why it is not: %s", hook, why)
		case !is:
			t.Logf("without %s: %s", hook, why)
		}
	}
	if why := m.Without["MediaCertificate"]; m.truster() && (m.MediaCertificate == "") != (why != "") {
		t.Errorf("MediaCertificate is %q, and Without says %q: one of them is wanted, for Management is a driver.MediaTruster", m.MediaCertificate, why)
	}
	if why, can := m.Without["Forget"], m.Management != nil && !m.fixed(); can && (m.Forget == nil) != (why != "") || !can && why != "" {
		t.Errorf("Forget is there: %t, boot devices are set: %t, and Without says of it %q", m.Forget != nil, can, why)
	}
	if m.Deny != nil && (m.Logins == nil || m.Corrected == nil) {
		t.Error("Deny needs Logins and Corrected")
	}
	if m.Spoil != nil && (m.Sessions == nil) != (m.Without["Sessions"] != "") {
		t.Errorf("Sessions is there: %t, and Without says of it %q", m.Sessions != nil, m.Without["Sessions"])
	}
	if m.Spoil != nil && (m.Restart == nil) != (m.Without["Restart"] != "") {
		t.Errorf("Restart is there: %t, and Without says of it %q", m.Restart != nil, m.Without["Restart"])
	}
	if m.Spoil != nil && m.Asked == nil {
		t.Error("Spoil needs Asked")
	}
}

// logged has each check end with a look at what was logged.
func logged(start func(*testing.T) *Machine) func(*testing.T) *Machine {
	return func(t *testing.T) *Machine {
		m := start(t)
		t.Cleanup(func() {
			l, there := logs.Load(t)
			if text := fmt.Sprint(l); there && m.Secret != "" && strings.Contains(text, m.Secret) {
				t.Errorf("the log holds the password: %s", text)
			}
		})
		return m
	}
}

// other is a node like n.
func other(n *node.Document, number int) *node.Document {
	twin := *n
	twin.UUID, twin.Name = fmt.Sprintf("0ther-%d", number), fmt.Sprintf("other%d", number)
	return &twin
}

// of is m with another node.
func (m *Machine) of(n *node.Document) *Machine { with := *m; with.Node = n; return &with }

// checkTwoNodes has two nodes of one machine ask at once: each gets its own answers and errors.
func checkTwoNodes(t *testing.T, m *Machine) {
	var all sync.WaitGroup
	for _, n := range []*node.Document{m.Node, other(m.Node, 2)} {
		for range 4 {
			all.Go(func() {
				m := m.of(n)
				if _, err := m.Power.PowerState(within(t), n); err != nil {
					t.Errorf("PowerState: %v", err)
				}
				failing(t, m, "power sideways", m.Power.SetPower(within(t), &Fence{}, n, "power sideways"), nil)
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				_, err := m.Power.PowerState(ended, n)
				failing(t, m, "PowerState", err, nil)
			})
		}
	}
	all.Wait()
}

// checkTwoAccounts has a node with a wrong password ask beside one with the right one, in turns.
func checkTwoAccounts(t *testing.T, m *Machine) {
	if m.Deny == nil {
		t.Skip(m.Without["Deny"])
	}
	wrong := m.of(other(m.Corrected(), 2)) // not yet the password
	for range 2 {
		_, err := m.Power.PowerState(within(t), m.Node)
		must(t, m, "PowerState", err)
		writes(t, m, "a node with a wrong password", 0, func() {
			_, err = m.Power.PowerState(within(t), wrong.Node)
			failing(t, wrong, "PowerState with a wrong password", err, driver.ErrDenied)
			failing(t, wrong, "SetPower with a wrong password", m.Power.SetPower(within(t), &Fence{}, wrong.Node, driver.PowerOn), driver.ErrDenied)
		})
	}
}

// checkTwoMachines switches one of two machines.
func checkTwoMachines(t *testing.T, m *Machine) {
	if m.Second == nil {
		t.Skip(m.Without["Second"])
	}
	two := m.of(m.Second())
	if two.Node.UUID == m.Node.UUID {
		t.Fatal("the second machine's node is the first one's")
	}
	off := switchTo(driver.PowerOff, driver.PowerOff)
	give(t, m, off)
	give(t, two, off)
	give(t, two, switchTo(driver.PowerOn, driver.PowerOn))
	settled(t, m, off)
	give(t, m, switchTo(driver.PowerOn, driver.PowerOn))
	give(t, two, off)
	settled(t, m, switchTo(driver.PowerOn, driver.PowerOn))
}

// nodesAtOnce and mostSockets bound the thousand nodes: of one BMC, which has a session, and perhaps one that is just being closed.
const (
	nodes, nodesAtOnce = 1000, 8
	mostSockets        = 8
)

// checkSockets reads the power of a thousand nodes of one BMC. Some have a wrong password, some have no time.
func checkSockets(t *testing.T, m *Machine) {
	if m.Port == nil {
		t.Skip(m.Without["Port"])
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	began, port := time.Now(), m.Port()
	ended, end := context.WithCancel(ctx)
	end()
	var all sync.WaitGroup
	turns := make(chan struct{}, nodesAtOnce)
	for i := range nodes {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			n, ctx := other(m.Node, i), ctx
			switch {
			case i%100 == 50 && m.Deny != nil:
				n = other(m.Corrected(), i)
			case i%100 == 0:
				ctx = ended
			}
			_, err := m.Power.PowerState(ctx, n)
			if i%50 != 0 && err != nil {
				t.Errorf("node %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if got := socketsTo(t, port); got > mostSockets {
		t.Errorf("%d sockets lead to the BMC after %d nodes, want %d at most", got, nodes, mostSockets)
	}
	shut(t, m)
	for got := socketsTo(t, port); got > 0; got = socketsTo(t, port) {
		select {
		case <-ctx.Done():
			t.Fatalf("%d sockets lead to the BMC after the driver was closed", got)
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Logf("%d nodes in %s", nodes, time.Since(began).Round(time.Millisecond))
}

// socketsTo counts the sockets of this machine that are connected to a port and belong to a program still.
func socketsTo(t *testing.T, port string) (n int) {
	t.Helper()
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile("/proc/net/" + table)
		if errors.Is(err, os.ErrNotExist) {
			continue // this machine has no IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		read++
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) > 9 && strings.HasSuffix(fields[2], fmt.Sprintf(":%04X", number)) && fields[9] != "0" {
				n++
			}
		}
	}
	if read == 0 {
		t.Fatal("this machine does not tell its sockets")
	}
	return n
}
