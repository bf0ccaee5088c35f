// Package strangers bounds what those may cost a rackd who have shown nothing yet: hosts on the machines' network, and
// agents before their token was seen to be right.
//
// Budget has all the numbers, and docs/strangers.md explains them. A Gate holds what is taken of them. An address has a
// fixed share at most, and never more than is left for other addresses: one greedy address leaves half to others.
//
// It imports nothing of the project. Invariant: who was known costs nothing of this. A Gate is safe for concurrent use.
package strangers

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// Budget is what strangers may cost. A zero is the default of that number.
type Budget struct {
	// Connections is how many of the agents' door are open on which no lookup was answered yet and no token was right,
	// ConnectionsPerAddress how many of one address.
	Connections, ConnectionsPerAddress int
	// Handshakes is how many connections of the port for firmware by TLS are open on which no request has come yet,
	// HandshakesPerAddress how many of one address.
	Handshakes, HandshakesPerAddress int
	// Bodies is how many heartbeats above Free are read or judged at once, BodiesPerAddress how many of one address.
	Bodies, BodiesPerAddress int
	// Lines is how many lines a minute each of DHCP, TFTP, boot web and agents' door may log of strangers.
	Lines int
	// MachineLines is how many lines a minute each of these may log of one machine that is known, or of one address
	// that has fetched a file.
	MachineLines int
	// LogRate, in bytes a second, is how fast a node's agent may send lines of its log in the long run, and LogBurst, in
	// bytes, how much at once. A request takes up to 512 KiB, so less than that keeps agents' lines out.
	LogRate, LogBurst int
	// Range is how much of the DHCP range machines may have that are not enrolled, in percent.
	Range int
}

// The defaults.
const (
	DefaultConnections           = 1024
	DefaultConnectionsPerAddress = 128
	DefaultHandshakes            = 256
	DefaultHandshakesPerAddress  = 64
	DefaultBodies                = 32
	DefaultBodiesPerAddress      = 4
	DefaultLines                 = 20
	DefaultMachineLines          = 10
	DefaultLogRate               = 16 << 10
	DefaultLogBurst              = 1 << 20
	DefaultRange                 = 50
)

// Free is how much of a body is read without a part of the budget: no more than a connection takes anyway. Heartbeats
// are smaller.
const Free = 4 << 10

// WithDefaults fills in what is not said.
func (b Budget) WithDefaults() Budget {
	b.Connections, b.ConnectionsPerAddress = cmp.Or(b.Connections, DefaultConnections), cmp.Or(b.ConnectionsPerAddress, DefaultConnectionsPerAddress)
	b.Handshakes, b.HandshakesPerAddress = cmp.Or(b.Handshakes, DefaultHandshakes), cmp.Or(b.HandshakesPerAddress, DefaultHandshakesPerAddress)
	b.Bodies, b.BodiesPerAddress = cmp.Or(b.Bodies, DefaultBodies), cmp.Or(b.BodiesPerAddress, DefaultBodiesPerAddress)
	b.Lines, b.MachineLines = cmp.Or(b.Lines, DefaultLines), cmp.Or(b.MachineLines, DefaultMachineLines)
	b.LogRate, b.LogBurst = cmp.Or(b.LogRate, DefaultLogRate), cmp.Or(b.LogBurst, DefaultLogBurst)
	b.Range = cmp.Or(b.Range, DefaultRange)
	return b
}

// Check says which number cannot be.
func (b Budget) Check() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"connections", b.Connections}, {"connections of an address", b.ConnectionsPerAddress}, {"handshakes", b.Handshakes}, {"handshakes of an address", b.HandshakesPerAddress}, {"bodies", b.Bodies}, {"bodies of an address", b.BodiesPerAddress},
		{"lines a minute", b.Lines}, {"lines of a machine", b.MachineLines}, {"rate of an agent's log", b.LogRate}, {"burst of an agent's log", b.LogBurst}, {"part of the DHCP range", b.Range}} {
		if n.value < 0 {
			return fmt.Errorf("strangers' %s: %d: it cannot be negative; 0 means the default", n.name, n.value)
		}
	}
	if b.Range > 100 {
		return fmt.Errorf("strangers' part of the DHCP range: %d percent is more than all of it", b.Range)
	}
	return nil
}

// Part is a part of the budget.
type Part string

// The parts.
const (
	Connections Part = "connections"
	Handshakes  Part = "handshakes"
	Bodies      Part = "bodies"
	Lines       Part = "lines"
	Log         Part = "log"
	Addresses   Part = "addresses"
)

// Gate holds what strangers have taken of their budget.
type Gate struct {
	Budget
	connections, handshakes, bodies *share
	logged                          paces
	log                             *slog.Logger
	refused                         func(Part)
}

// New makes a Gate. refused, if not nil, is told of each thing that a part of the budget kept out. What the log leaves out
// it tells to log, if that is not nil.
func New(b Budget, refused func(Part), log *slog.Logger) *Gate {
	if refused == nil {
		refused = func(Part) {}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	b = b.WithDefaults()
	return &Gate{Budget: b, connections: newShare(b.Connections, b.ConnectionsPerAddress), handshakes: newShare(b.Handshakes, b.HandshakesPerAddress), bodies: newShare(b.Bodies, b.BodiesPerAddress), log: log, refused: refused}
}

// Refuse counts what was kept out by a part of the budget that another package keeps.
func (g *Gate) Refuse(p Part) { g.refused(p) }

// Body takes a place for the body of an address; ok is false when there is none. Otherwise leave is called once or more often.
func (g *Gate) Body(from netip.Addr) (leave func(), ok bool) { return g.take(g.bodies, Bodies, from) }

func (g *Gate) take(s *share, p Part, from netip.Addr) (leave func(), ok bool) {
	by := of(from)
	if !s.take(by) {
		g.refused(p)
		return nil, false
	}
	return sync.OnceFunc(func() { s.give(by) }), true
}

// MayShip reports whether the agent of a node may send n bytes of its log now, and takes them. Only agents whose token was
// right are asked about: memory is kept for each node.
func (g *Gate) MayShip(node string, n int64) bool {
	if g.logged.take(node, float64(n), float64(g.LogRate), float64(g.LogBurst), time.Now()) {
		return true
	}
	g.refused(Log)
	return false
}
