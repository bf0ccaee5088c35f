package network

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Trouble is what a cable does to packets, in each direction.
type Trouble struct {
	Delay  time.Duration
	Jitter time.Duration // at most this is added to Delay; the order of packets stays
	Loss   float64       // share of packets that are lost, 0 to 1
}

// Cable joins two switches. It carries packets in this process, between two TAP
// devices, because a kernel need not have the queueing discipline that delays and
// loses them. Safe for concurrent use.
type Cable struct {
	name    string
	a, b    *end
	trouble atomic.Pointer[Trouble]
	carried atomic.Uint64
	work    sync.WaitGroup
}

// end is a cable's end in a switch.
type end struct {
	at   *Switch
	port string
	file *os.File
}

// maxFrame is the largest frame at the switches' MTU of 1500.
const maxFrame = 1600

// queued bounds the packets on their way in one direction; more are lost, as on a
// link that is too slow for what it is given.
const queued = 4096

// Connect joins a and b with a cable whose name, of at most 13 bytes, is that of the
// switches' ports too. Close must follow. seed decides which packets are lost.
func Connect(name string, a, b *Switch, seed uint64) (*Cable, error) {
	c := &Cable{name: name}
	c.trouble.Store(&Trouble{})
	for i, s := range []*Switch{a, b} {
		port := fmt.Sprintf("%s-%d", name, i)
		fd, err := s.tap(port)
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("connecting switch %s by cable %s: %w", s.name, name, err)
		}
		e := &end{s, port, os.NewFile(uintptr(fd), port)}
		if i == 0 {
			c.a = e
		} else {
			c.b = e
		}
	}
	c.carry(c.a, c.b, rand.New(rand.NewPCG(seed, 1)))
	c.carry(c.b, c.a, rand.New(rand.NewPCG(seed, 2)))
	return c, nil
}

// Cut takes the cable out of both switches until Join.
func (c *Cable) Cut() error { return c.each(setDown) }

// Join puts the cable back.
func (c *Cable) Join() error { return c.each(setUp) }

func (c *Cable) each(do func(port string) error) error {
	var errs []error
	for _, e := range []*end{c.a, c.b} {
		errs = append(errs, e.at.ns.do(func() error { return do(e.port) }))
	}
	return errors.Join(errs...)
}

// Set makes the cable treat packets so from now on; the zero Trouble heals it.
func (c *Cable) Set(t Trouble) { c.trouble.Store(&t) }

// Carried is how many bytes the cable has carried, in both directions, with their
// Ethernet headers.
func (c *Cable) Carried() uint64 { return c.carried.Load() }

// Close ends the cable and waits for its goroutines.
func (c *Cable) Close() {
	for _, e := range []*end{c.a, c.b} {
		if e != nil {
			e.file.Close()
		}
	}
	c.work.Wait()
}

type packet struct {
	frame []byte
	due   time.Time
}

// carry moves packets from one end to the other until the cable is closed.
func (c *Cable) carry(from, to *end, dice *rand.Rand) {
	line := make(chan packet, queued)
	c.work.Go(func() {
		defer close(line)
		var last time.Time
		buf := make([]byte, maxFrame)
		for {
			n, err := from.file.Read(buf)
			if errors.Is(err, os.ErrClosed) {
				return
			}
			if err != nil {
				// A port that is down refuses to be read.
				time.Sleep(10 * time.Millisecond)
				continue
			}
			t := c.trouble.Load()
			if t.Loss > 0 && dice.Float64() < t.Loss {
				continue
			}
			due := time.Now().Add(t.Delay)
			if t.Jitter > 0 {
				due = due.Add(time.Duration(dice.Int64N(int64(t.Jitter))))
			}
			if due.Before(last) {
				due = last
			}
			last = due
			c.carried.Add(uint64(n))
			select {
			case line <- packet{append([]byte(nil), buf[:n]...), due}:
			default:
			}
		}
	})
	c.work.Go(func() {
		for p := range line {
			if d := time.Until(p.due); d > 0 {
				time.Sleep(d)
			}
			// What cannot be written is lost: the port is down.
			if _, err := to.file.Write(p.frame); errors.Is(err, os.ErrClosed) {
				for range line {
				}
				return
			}
		}
	})
}
