package places

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/hal"
	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/fleet/machine"
	"github.com/ironyard/ironyard/ops/virtual/fleet/pace"
)

// mishap is what becomes of one datagram to a bad BMC of IPMI.
type mishap int

const (
	sound     mishap = iota
	late             // taken in, and answered after a while that is longer than the driver's first tries
	lost             // taken in, and the answer is lost
	half             // taken in, and half of the answer comes
	twice            // taken in, and answered twice
	dropped          // lost on its way
	startsNow        // not taken in: the BMC starts again just then
	startsOn         // taken in, and the BMC starts again in place of the answer
	refusal          // a login is refused, although the password is right
)

const (
	lateness = 700 * time.Millisecond
	// starting is how long a BMC is away that starts again. It takes a new firmware as long, now and then.
	starting    = 300 * time.Millisecond
	newFirmware = 2 * time.Second
)

// moodyIPMI says what becomes of each datagram: one in five comes to grief, and one login in twenty is refused. So is the first of every
// fourth BMC, for a few BMCs might draw none. A BMC that starts again is away for a while.
func moodyIPMI(seed uint64) func(login bool) (mishap, time.Duration) {
	var mu sync.Mutex
	draw := rand.New(rand.NewPCG(seed, 21))
	refuses := seed%4 == 0
	return func(login bool) (mishap, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case login && (refuses || draw.IntN(20) == 0):
			refuses = false
			return refusal, 0
		case draw.IntN(5) > 0:
			return sound, 0
		}
		away := starting
		if draw.IntN(8) == 0 {
			away = newFirmware
		}
		return late + mishap(draw.IntN(int(refusal-late))), away
	}
}

// badIPMI is a machine with a BMC of go-ipmi at a socket, which is bad once mood is set.
type badIPMI struct {
	machine *machine.Machine
	conn    *net.UDPConn
	mood    atomic.Pointer[func(bool) (mishap, time.Duration)]
	// needless counts orders that a machine had carried out already: power on of one that is on, or off of one that is off.
	needless atomic.Int64
	// came counts mishaps.
	came [refusal + 1]atomic.Int64

	mu     sync.Mutex
	inner  *inner // of the server that runs
	away   time.Time
	served sync.WaitGroup
}

// inner is the socket as one life of the BMC sees it.
type inner struct {
	outer  *badIPMI
	in     chan packet
	end    chan struct{}
	fates  sync.Map // mishap by the address of who asks
	server *server.Server
}

type packet struct {
	data []byte
	from net.Addr
}

// ReadFrom implements transport.PacketConn.
func (i *inner) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case p := <-i.in:
		return copy(b, p.data), p.from, nil
	case <-i.end:
		return 0, nil, net.ErrClosed
	}
}

// Close implements transport.PacketConn.
func (i *inner) Close() error { close(i.end); return nil }

// WriteTo implements transport.PacketConn.
func (i *inner) WriteTo(b []byte, to net.Addr) (int, error) {
	send := func(d []byte) { _, _ = i.outer.conn.WriteTo(d, to) }
	fate, _ := i.fates.Load(to.String())
	switch fate {
	case late:
		whole := append([]byte(nil), b...)
		time.AfterFunc(lateness, func() { send(whole) })
	case lost, startsOn:
	case half:
		send(b[:len(b)/2])
	case twice:
		send(b)
		send(b)
	case refusal:
		send(refused(b))
	default:
		send(b)
	}
	return len(b), nil
}

// rakp1 and rakp2 are the types of datagrams in which a login names its user, and in which the BMC accepts it or not (section 13.17).
const rakp1, rakp2 = 0x12, 0x13

func kindOf(b []byte) byte {
	if len(b) < 18 || b[4] != 0x06 {
		return 0
	}
	return b[5] & 0x3F
}

// refused makes a BMC's RAKP message 2 one that refuses the user (section 13.21): it ends after the session's number.
func refused(b []byte) []byte {
	if kindOf(b) != rakp2 || len(b) < 24 {
		return b
	}
	const unauthorizedName = 0x0D
	out := append([]byte(nil), b[:24]...)
	out[14], out[15], out[17] = 8, 0, unauthorizedName
	return out
}

// newBadIPMI starts a BMC whose machine is off.
func newBadIPMI(t *testing.T, m *machine.Machine) *badIPMI {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	b := &badIPMI{machine: m, conn: conn}
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	b.served.Go(b.take)
	t.Cleanup(func() {
		conn.Close()
		b.mu.Lock()
		b.inner.server.Close()
		b.mu.Unlock()
		b.served.Wait()
	})
	return b
}

func (b *badIPMI) port() string { return strconv.Itoa(b.conn.LocalAddr().(*net.UDPAddr).Port) }

const ipmiUser, ipmiPassword = "admin", "s3cret-pass"

// start begins a life of the BMC, which knows no session of the lives before. The caller holds mu, or is alone.
func (b *badIPMI) start() error {
	state := bmc.New(bmc.DeviceInfo{DeviceID: 1, IPMIVersion: 0x02}, [16]byte{1}, board{mock.New(), b})
	added, err := state.Users.Add(2, ipmiUser)
	if err != nil {
		return err
	}
	added.Enabled = true
	added.SetPassword([]byte(ipmiPassword))
	added.ChannelAccess = map[uint8]bmc.UserChannelAccess{1: {MaxPrivilege: bmc.PrivilegeLevelAdministrator, Enabled: true}}
	if err := state.Users.Update(2, func(live *bmc.User) error { *live = *added; return nil }); err != nil {
		return err
	}
	i := &inner{outer: b, in: make(chan packet, 64), end: make(chan struct{})}
	i.server = server.NewServer(state, i)
	b.inner = i
	b.served.Go(func() { _ = i.server.Serve(context.Background()) })
	return nil
}

// restart ends the BMC's life and begins another one, after a while in which it is deaf.
func (b *badIPMI) restart(of *inner, away time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inner != of {
		return
	}
	of.server.Close()
	b.away = time.Now().Add(away)
	_ = b.start() // as it did at first
}

// take takes in datagrams until the socket is closed.
func (b *badIPMI) take() {
	buffer := make([]byte, 2048)
	for {
		n, from, err := b.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		b.mu.Lock()
		i, deaf := b.inner, time.Now().Before(b.away)
		b.mu.Unlock()
		if deaf {
			continue
		}
		var fate mishap
		var away time.Duration
		if mood := b.mood.Load(); mood != nil {
			fate, away = (*mood)(kindOf(buffer[:n]) == rakp1)
			b.came[fate].Add(1)
		}
		switch fate {
		case dropped:
			continue
		case startsNow:
			b.restart(i, away)
			continue
		}
		i.fates.Store(from.String(), fate)
		select {
		case i.in <- packet{append([]byte(nil), buffer[:n]...), from}:
		default: // it is full, and drops
		}
		if fate == startsOn {
			time.AfterFunc(50*time.Millisecond, func() { b.restart(i, away) }) // it has done what it was asked for by then
		}
	}
}

// board is a BMC's hardware whose chassis is a machine's.
type board struct {
	*mock.HAL
	bmc *badIPMI
}

// Chassis implements hal.HAL.
func (b board) Chassis() hal.ChassisHAL { return chassis{b.HAL.Chassis(), b.bmc} }

type chassis struct {
	hal.ChassisHAL
	bmc *badIPMI
}

// PowerState implements hal.ChassisHAL.
func (c chassis) PowerState(context.Context) (bool, error) { return c.bmc.machine.On(), nil }

// SetPower implements hal.ChassisHAL.
func (c chassis) SetPower(ctx context.Context, on bool) error {
	if c.bmc.machine.On() == on {
		c.bmc.needless.Add(1)
	}
	if on {
		return c.bmc.machine.Start(ctx)
	}
	return c.bmc.machine.Stop(ctx)
}

// PowerCycle implements hal.ChassisHAL.
func (c chassis) PowerCycle(ctx context.Context) error { return c.bmc.machine.Reset(ctx) }

// ColdReset implements hal.ChassisHAL.
func (c chassis) ColdReset(ctx context.Context) error { return c.bmc.machine.Reset(ctx) }

// GetBootFlags implements hal.ChassisHAL.
func (chassis) GetBootFlags(context.Context) (*types.BootOptionParam_BootFlags, error) {
	return &types.BootOptionParam_BootFlags{}, nil
}

// TestBadIPMI is TestBadBMCs with BMCs of IPMI: a thousand, ten without IRONYARD_CHAOS.
func TestBadIPMI(t *testing.T) {
	size := 10
	if os.Getenv("IRONYARD_CHAOS") != "" {
		size = 1000
	}
	r := newRig(t)
	j := journal.New(0)
	bad := make([]*badIPMI, size)
	for i := range bad {
		m := machine.New(machine.Config{Name: fmt.Sprintf("ipmi-%04d", i), Journal: j, Pace: pace.New(quick, 1, uint64(i))})
		t.Cleanup(m.Close)
		bad[i] = newBadIPMI(t, m)
	}
	flags := []string{"--drivers", "ipmi", "--bmc-networks", "127.0.0.0/8", "--power-recovery", "5s", "--bmc-timeout", "1s"}
	r.start(t, spareName, spare, "", flags...)
	victim := r.start(t, "bad-1", lane(0), "", flags...)
	r.start(t, "bad-2", lane(0), "", flags...)
	o, err := operator.New(r.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]*asked, size)
	inParallel(size, func(i int) {
		name := fmt.Sprintf("ipmi-%04d", i)
		id, err := o.Enrol(t.Context(), operator.Machine{Name: name, Driver: "ipmi", Group: lane(0), DriverInfo: map[string]any{"ipmi_address": "127.0.0.1", "ipmi_port": bad[i].port(),
			"ipmi_username": ipmiUser, "ipmi_password": ipmiPassword}})
		if err != nil {
			t.Error(err)
		}
		all[i] = &asked{id: id, machine: name}
	})
	if t.Failed() {
		return
	}
	for i, b := range bad {
		mood := moodyIPMI(uint64(i))
		b.mood.Store(&mood)
	}
	r.switchedOnce(t, all, j, victim)
	var came [refusal + 1]int64
	for i, b := range bad {
		for kind := range came {
			came[kind] += b.came[kind].Load()
		}
		if n := b.needless.Load(); n > 0 {
			t.Errorf("%s was given %d orders that it had carried out already", all[i].machine, n)
		}
	}
	t.Logf("of the datagrams to the BMCs %d were taken well, %d late, %d lost, %d halved, %d twice, %d dropped; BMCs started again at %d and after %d, and refused %d logins",
		came[sound], came[late], came[lost], came[half], came[twice], came[dropped], came[startsNow], came[startsOn], came[refusal])
	for kind, n := range came {
		if n == 0 {
			t.Errorf("no datagram had fate %d: the mix lacks it", kind)
		}
	}
	said, err := os.ReadFile(victim.log)
	if err != nil || strings.Contains(string(said), ipmiPassword) {
		t.Errorf("the log of a rackd holds a password: %v", err)
	}
}
