package console

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/consolecopy"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/driver/none"
)

// shelf is the bucket of a site, which rackds of a test share. What lies on it is sealed, as on the bus.
type shelf struct {
	mu      sync.Mutex
	key     *seal.Key
	bodies  map[string]body
	last    uint64
	writes  int
	bytes   int
	removed int
	refused int           // copies for which there was no room
	fail    error         // of each request
	full    bool          // it takes no copy of a console that has none there
	silent  bool          // saves get no answer
	stuck   chan struct{} // not nil: loads wait for it
}

type body struct {
	raw      []byte
	revision uint64
	at       time.Time
}

func newShelf(t *testing.T) *shelf {
	key, err := seal.NewKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	warm, err := consolecopy.Copy{Log: "L"}.Seal(key, nodeA, consolecopy.MaxBytes) // what packs is made outside the bubbles that use it
	if err == nil {
		_, err = consolecopy.Open(key, nodeA, warm)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &shelf{key: key, bodies: map[string]body{}}
}

func (s *shelf) Load(ctx context.Context, at Place) (*consolecopy.Copy, uint64, error) {
	s.mu.Lock()
	stuck, err := s.stuck, s.fail
	b := s.bodies[at.Key()]
	s.mu.Unlock()
	if stuck != nil {
		select {
		case <-stuck:
			return s.Load(ctx, at)
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
	if err != nil || b.raw == nil {
		return nil, 0, err
	}
	c, err := consolecopy.Open(s.key, at.Node, b.raw)
	if err != nil {
		return nil, b.revision, nil
	}
	return &c, b.revision, nil
}

func (s *shelf) Save(ctx context.Context, at Place, c consolecopy.Copy, revision uint64) (uint64, int, error) {
	raw, err := c.Seal(s.key, at.Node, consolecopy.MaxBytes)
	if err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	silent := s.silent
	s.mu.Unlock()
	if silent {
		<-ctx.Done()
		return 0, 0, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return 0, 0, s.fail
	}
	if s.bodies[at.Key()].revision != revision {
		return 0, 0, ErrCopyChanged
	}
	if s.full && revision == 0 {
		s.refused++
		return 0, 0, fmt.Errorf("no room: %w", &jetstream.APIError{ErrorCode: 10077})
	}
	s.last++
	s.writes++
	s.bytes += len(raw)
	s.bodies[at.Key()] = body{raw, s.last, time.Now()}
	return s.last, len(raw), nil
}

func (s *shelf) Remove(_ context.Context, key string, revision uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	if s.bodies[key].revision != revision {
		return ErrCopyChanged
	}
	s.removed++
	s.last++
	delete(s.bodies, key)
	return nil
}

func (s *shelf) List(context.Context) (list []There, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, b := range s.bodies {
		list = append(list, There{key, b.revision, b.at})
	}
	return list, s.fail
}

func (s *shelf) Key(string) string { s.mu.Lock(); defer s.mu.Unlock(); return s.key.ID() }

func (s *shelf) set(do func()) { s.mu.Lock(); defer s.mu.Unlock(); do() }

// counted returns how many copies were written, and their bytes.
func (s *shelf) counted() (writes, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes, s.bytes
}

// text is what the copy of a node holds, and whether there is one.
func (s *shelf) text(t *testing.T, id string) (string, bool) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	b, there := s.bodies[Place{"", id}.Key()]
	if !there {
		return "", false
	}
	c, err := consolecopy.Open(s.key, id, b.raw)
	if err != nil {
		t.Fatal(err)
	}
	return string(c.Text), true
}

// another is a second rackd beside that of b, which owns no node yet.
func (b *bench) another(copies Copies) *bench {
	o := &bench{t: b.t, wire: &wire{Unsupported: none.Unsupported{Kind: "console"}}, told: &counts{results: map[string]int{}}}
	kind := fake.New(fake.Options{}).Type()
	kind.Interfaces["console"] = []driver.Named{{Name: "wire", Impl: o.wire}}
	hw, err := driver.NewRegistry(kind)
	if err != nil {
		b.t.Fatal(err)
	}
	o.rack = &rack{hw: hw, node: b.rack.Node(nodeA)}
	o.Keeper = New(Config{Name: "r2", Nodes: o.rack, Documents: o.rack, Members: o.rack, Hardware: hw, Metrics: o.told, Copies: copies})
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	o.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	})
	return o
}

// owns gives the node to a rackd, or takes it away.
func (b *bench) owns(is bool) {
	b.rack.set(func() { b.rack.owned = is })
	b.RingChanged()
	synctest.Wait()
}

// dies ends the rackd as kill -9 does: nothing more of it reaches the bus.
func (b *bench) dies(s *shelf) {
	s.set(func() { s.fail = errors.New("it is dead") })
	b.stop()
	s.set(func() { s.fail = nil })
}

// What a machine wrote before its rackd died is read from the next one. A reader that was there goes on where it was.
func TestTheNextRackdGoesOnWithTheLog(t *testing.T) {
	s := newShelf(t)
	with(t, s, func(b *bench) {
		b.says("Kernel panic - not syncing")
		reader := b.reads("", 0)
		time.Sleep(settles + copyTick)
		synctest.Wait()
		b.says(", and what is written after the copy")
		late := b.reads(reader.Log, reader.Next)
		b.dies(s)
		next := b.another(s)
		defer next.stop()
		next.owns(true)
		if out := next.reads("", 0); string(out.Data) != "Kernel panic - not syncing" || out.Log == reader.Log {
			t.Errorf("a new reader gets %q of log %s", out.Data, out.Log)
		}
		next.says(" and then")
		for what, c := range map[string]struct {
			from ask.ConsoleOutput
			want string
		}{
			"that had read up to the copy":         {reader, " and then"},
			"that had read more than the copy has": {late, " and then"},
			"that had read nothing":                {ask.ConsoleOutput{Log: reader.Log}, "Kernel panic - not syncing and then"},
			"of a log of which there is no copy":   {ask.ConsoleOutput{Log: "another", Next: 3}, "Kernel panic - not syncing and then"},
		} {
			if out := next.reads(c.from.Log, c.from.Next); string(out.Data) != c.want || out.Lost != 0 {
				t.Errorf("a reader %s gets %q, %d lost, want %q", what, out.Data, out.Lost, c.want)
			}
		}
		if out, err := next.Read(b.t.Context(), nodeA, ask.ConsoleRead{Tenancy: "t2"}); !errors.Is(err, ErrChangedHands) {
			t.Errorf("another tenancy reads %+v, %v", out, err)
		}
	})
}

// What is missing after a death is what was written in the last seconds, as docs/consoles.md says, also of a machine that never stops.
func TestHowMuchADeathCosts(t *testing.T) {
	const bound = 7 * time.Second
	s := newShelf(t)
	with(t, s, func(b *bench) {
		r := rand.New(rand.NewPCG(1, 1))
		written := map[int64]time.Time{} // by the log's end
		var end int64
		for range 3000 { // five minutes
			line := fmt.Sprintf("%x %x\r\n", r.Uint64(), r.Uint64())
			b.says(line)
			end += int64(len(line))
			written[end] = time.Now()
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			c, _, err := s.Load(b.t.Context(), Place{"", nodeA})
			if err != nil {
				t.Fatal(err)
			}
			var at int64
			if c != nil {
				at = c.End
			}
			for e, when := range written {
				if e <= at {
					delete(written, e)
				} else if age := time.Since(when); age > bound {
					t.Fatalf("text of %s ago is in no copy", age)
				}
			}
		}
		writes, bytes := s.counted()
		t.Logf("%d copies, %d bytes in five minutes", writes, bytes)
		if most := 300*CopyRate + 2*consolecopy.MaxBytes; bytes > most {
			t.Errorf("%d bytes were written, more than %d", bytes, most)
		}
	})
}

// A machine that is silent costs the bus nothing, however long; neither does one that never wrote.
func TestAnIdleConsoleWritesNothing(t *testing.T) {
	s := newShelf(t)
	with(t, s, func(b *bench) {
		time.Sleep(time.Hour)
		if writes, _ := s.counted(); writes != 0 {
			t.Errorf("%d copies of an empty log", writes)
		}
		b.says("login: ")
		time.Sleep(24 * time.Hour)
		if writes, _ := s.counted(); writes != 1 {
			t.Errorf("%d copies of one line", writes)
		}
		b.owns(false)
		b.owns(true)
		time.Sleep(time.Hour)
		if writes, _ := s.counted(); writes != 1 {
			t.Errorf("%d copies of one line after the node came back", writes)
		}
	})
}

// A machine that writes as fast as it is read, of what cannot be compressed, has its share of the bus and no more.
func TestAChattyConsoleIsBounded(t *testing.T) {
	s := newShelf(t)
	with(t, s, func(b *bench) {
		noise := rand.NewChaCha8([32]byte{})
		const seconds = 120
		for range seconds {
			for range 8 {
				piece := make([]byte, 4<<10)
				noise.Read(piece)
				b.says(string(piece))
			}
			time.Sleep(time.Second)
		}
		writes, bytes := s.counted()
		t.Logf("%d copies, %d bytes", writes, bytes)
		if most := seconds*CopyRate + 2*consolecopy.MaxBytes; bytes > most || writes < 10 {
			t.Errorf("%d copies with %d bytes, more than %d", writes, bytes, most)
		}
	})
}

// The copy goes with its log: it is not there for the next tenant, nor for a node that is gone or whose console is disabled.
func TestACopyEndsWithItsLog(t *testing.T) {
	for name, change := range map[string]func(*node.Document){
		"disabled": func(n *node.Document) { n.ConsoleEnabled = false },
		"another tenant, whose machine is silent": func(n *node.Document) { n.Tenancy = "t2" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			with(t, s, func(b *bench) {
				b.says("the first tenant's secret")
				time.Sleep(2 * time.Second)
				if text, there := s.text(t, nodeA); !there || text != "the first tenant's secret" {
					t.Fatalf("the copy is %q", text)
				}
				b.change(change)
				time.Sleep(2 * copyTick)
				synctest.Wait()
				if text, there := s.text(t, nodeA); there {
					t.Errorf("the copy is still there: %q", text)
				}
			})
		})
	}
	t.Run("the node is gone", func(t *testing.T) {
		s := newShelf(t)
		with(t, s, func(b *bench) {
			b.says("secret")
			time.Sleep(2 * time.Second)
			b.rack.set(func() { b.rack.node = nil })
			b.NodeChanged(nodeA)
			synctest.Wait()
			if _, there := s.text(t, nodeA); there {
				t.Error("the copy is still there")
			}
		})
	})
}

// The next tenant sees nothing of a copy that was written before the node changed hands, and its rackd died before it heard of that.
func TestTheNextTenantsRackdDropsTheCopy(t *testing.T) {
	s := newShelf(t)
	with(t, s, func(b *bench) {
		b.says("the first tenant's secret")
		time.Sleep(2 * time.Second)
		b.dies(s)
		next := b.another(s)
		defer next.stop()
		next.rack.set(func() { n := *next.rack.node; n.Tenancy = "t2"; next.rack.node = &n })
		next.owns(true)
		if out, err := next.Read(b.t.Context(), nodeA, ask.ConsoleRead{Tenancy: "t2"}); err != nil || len(out.Data) != 0 {
			t.Errorf("the next tenant gets %+v, %v", out, err)
		}
		if _, err := next.Read(b.t.Context(), nodeA, ask.ConsoleRead{Tenancy: "t1"}); !errors.Is(err, ErrChangedHands) {
			t.Errorf("the former tenant reads: %v", err)
		}
		time.Sleep(2 * copyTick)
		synctest.Wait()
		if _, there := s.text(t, nodeA); there {
			t.Error("the first tenant's copy is still there")
		}
	})
}

// A rackd that gives a node away, or stops, leaves all that its machine wrote.
func TestWhatIsGivenAwayIsCopiedFirst(t *testing.T) {
	for name, do := range map[string]func(*bench){
		"the ring names another": func(b *bench) { b.owns(false) },
		"it stops":               func(b *bench) { b.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			with(t, s, func(b *bench) {
				b.says("up to the last byte")
				do(b)
				synctest.Wait()
				if text, _ := s.text(t, nodeA); text != "up to the last byte" {
					t.Errorf("the copy is %q", text)
				}
				select {
				case <-b.Copied():
				default:
					if name == "it stops" {
						t.Error("it does not say that all is copied")
					}
				}
			})
		})
	}
}

// The next rackd was quicker than the last copy of the one before. It goes on with that all the same, as long as its machine was silent.
func TestALastCopyThatComesLate(t *testing.T) {
	s := newShelf(t)
	with(t, s, func(b *bench) {
		b.says("one ")
		time.Sleep(2 * time.Second)
		next := b.another(s)
		defer next.stop()
		slow := make(chan struct{})
		next.wire.mu.Lock()
		next.wire.slow = slow
		next.wire.mu.Unlock()
		next.owns(true) // and opens the console, slowly
		if out, err := next.Read(b.t.Context(), nodeA, ask.ConsoleRead{Tenancy: "t1"}); err != nil || string(out.Data) != "one " {
			t.Errorf("before it is open a reader gets %+v, %v", out, err)
		}
		b.says("two ")
		b.owns(false)
		close(slow)
		synctest.Wait()
		next.says("three")
		if out := next.reads("", 0); string(out.Data) != "one two three" {
			t.Errorf("a reader gets %q", out.Data)
		}
		time.Sleep(2 * time.Second)
		if text, _ := s.text(t, nodeA); text != "one two three" {
			t.Errorf("the copy is %q", text)
		}
	})
}

// A rackd that no longer owns the node writes over no copy of the one that does. The owner's counts.
func TestOnlyTheOwnersCopyCounts(t *testing.T) {
	s := newShelf(t)
	with(t, s, func(b *bench) {
		b.says("old")
		time.Sleep(2 * time.Second)
		next := b.another(s)
		defer next.stop()
		next.owns(true)
		next.says(" new")
		time.Sleep(2 * time.Second)
		b.says(" and a last word")
		b.owns(false)
		synctest.Wait()
		if text, _ := s.text(t, nodeA); text != "old new" {
			t.Errorf("the copy is %q", text)
		}
		// One that came between is replaced by what the owner has.
		if _, _, err := s.Save(b.t.Context(), Place{"", nodeA}, consolecopy.Copy{Log: "thief", Tenancy: "t1", End: 6, Text: []byte("forged")}, s.last); err != nil {
			t.Fatal(err)
		}
		next.says("er")
		time.Sleep(10 * time.Second)
		if text, _ := s.text(t, nodeA); text != "old newer" {
			t.Errorf("the copy is %q", text)
		}
		// And the node comes back to the first.
		next.owns(false)
		b.owns(true)
		if out := b.reads("", 0); string(out.Data) != "old newer" {
			t.Errorf("a reader gets %q", out.Data)
		}
	})
}

// While the copy is not known, a question is refused for a moment: it is not answered with an empty log. A bus that never answers
// keeps no console shut.
func TestReadersWaitForTheCopy(t *testing.T) {
	s := newShelf(t)
	with(t, s, func(b *bench) {
		b.says("text")
		time.Sleep(2 * time.Second)
		b.dies(s)
		stuck := make(chan struct{})
		s.set(func() { s.stuck = stuck })
		next := b.another(s)
		defer next.stop()
		next.owns(true)
		if _, err := next.Read(b.t.Context(), nodeA, ask.ConsoleRead{Tenancy: "t1"}); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("before it is known: %v", err)
		}
		go func() {
			time.Sleep(loadWithin / 2)
			s.set(func() { s.stuck = nil })
			close(stuck)
		}()
		if out, err := next.Read(b.t.Context(), nodeA, ask.ConsoleRead{Tenancy: "t1"}); err != nil || string(out.Data) != "text" {
			t.Errorf("who waits gets %q, %v", out.Data, err)
		}
	})
	with(t, &shelf{key: s.key, bodies: map[string]body{}, fail: errors.New("no answer")}, func(b *bench) {
		time.Sleep(time.Minute)
		b.says("later")
		if out := b.reads("", 0); string(out.Data) != "later" {
			t.Errorf("a reader gets %q", out.Data)
		}
	})
}

// A bus that fails for a while gets the copy when it answers again, and one that has no place for copies is asked seldom.
func TestCopiesThatFail(t *testing.T) {
	s := newShelf(t)
	with(t, s, func(b *bench) {
		b.says("one ")
		time.Sleep(2 * time.Second)
		s.set(func() { s.fail = errors.New("no answer") })
		b.says("two")
		time.Sleep(time.Hour)
		if text := b.reads("", 0); string(text.Data) != "one two" {
			t.Errorf("a reader gets %q", text.Data)
		}
		b.told.mu.Lock()
		failed := b.told.results["copy failed"]
		b.told.mu.Unlock()
		if failed < 10 || failed > 3600/5+1 {
			t.Errorf("%d attempts in an hour", failed)
		}
		s.set(func() { s.fail = nil })
		time.Sleep(copyAgain + copyTick)
		synctest.Wait()
		if text, _ := s.text(t, nodeA); text != "one two" {
			t.Errorf("the copy is %q", text)
		}
	})
}

// Keys that are replaced have the copy sealed again, also of a machine that is silent.
func TestCopiesFollowTheKey(t *testing.T) {
	s := newShelf(t)
	with(t, s, func(b *bench) {
		b.says("text")
		time.Sleep(time.Minute)
		fresh, err := seal.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		s.set(func() { s.key = fresh.WithOlder(s.key) })
		time.Sleep(time.Second)
		synctest.Wait()
		s.set(func() { s.key = fresh })
		if text, _ := s.text(t, nodeA); text != "text" {
			t.Errorf("under the new key the copy is %q", text)
		}
	})
}

// Copies of nodes that are gone are removed, though no rackd held their consoles when they went. Those of others stay, and one that the
// bus lost is written again.
func TestSweep(t *testing.T) {
	s := newShelf(t)
	with(t, s, func(b *bench) {
		b.says("text")
		put := func(place Place) {
			if _, _, err := s.Save(b.t.Context(), place, consolecopy.Copy{Log: "L", End: 1, Text: []byte("x")}, 0); err != nil {
				t.Fatal(err)
			}
		}
		put(Place{"", "gone"})
		put(Place{"", "another"}) // this rackd cannot read its document
		put(Place{"elsewhere", nodeA})
		time.Sleep(sweepAfter + time.Second)
		put(Place{"", "new"})
		for sweeps := range 2 {
			if err := b.sweep(b.t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, there := s.bodies[Place{"", "gone"}.Key()]; there != (sweeps == 0) {
				t.Errorf("after %d sweeps the copy of a node that is not known is there: %t", sweeps+1, there)
			}
		}
		s.mu.Lock()
		var left []string
		for key := range s.bodies {
			left = append(left, key)
		}
		s.mu.Unlock()
		if all := strings.Join(left, " "); len(left) != 3 || !strings.Contains(all, "=."+nodeA) || !strings.Contains(all, "=.another") || !strings.Contains(all, "=.new") {
			t.Errorf("left are %q", left)
		}
		s.set(func() { clear(s.bodies) })
		if err := b.sweep(b.t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * copyTick)
		synctest.Wait()
		if text, _ := s.text(t, nodeA); text != "text" {
			t.Errorf("what the bus lost is %q", text)
		}
		// By itself, within three hours.
		put(Place{"", "gone"})
		time.Sleep(3*sweepEvery + sweepAfter)
		synctest.Wait()
		if _, there := s.bodies[Place{"", "gone"}.Key()]; there {
			t.Error("the copy of a node that is gone is still there")
		}
	})
}

// A node that goes to another conductor group has its copy there, under that group's key, and none where it was.
func TestACopyFollowsTheGroup(t *testing.T) {
	s := newShelf(t)
	with(t, s, func(b *bench) {
		b.says("of the first group")
		time.Sleep(2 * time.Second)
		b.change(func(n *node.Document) { n.Group = "g2" })
		time.Sleep(2 * time.Second)
		b.says("of the second")
		time.Sleep(2 * time.Second)
		if text, there := s.text(t, nodeA); there {
			t.Errorf("the first group's copy is still there: %q", text)
		}
		c, _, err := s.Load(b.t.Context(), Place{"g2", nodeA})
		if err != nil || c == nil || string(c.Text) != "of the second" {
			t.Errorf("the second group's copy is %+v, %v", c, err)
		}
	})
}

// ownsAll is a rackd that owns every node.
type ownsAll struct{ *rack }

func (ownsAll) Owns(string) bool { return true }

// Machines that all write without a pause share what a rackd may write. None waits for longer than all copies take together.
func TestManyChattyConsoles(t *testing.T) {
	s := newShelf(t)
	synctest.Test(t, func(t *testing.T) {
		const machines, seconds = 100, 60
		k := New(Config{Name: "r1", Nodes: ownsAll{}, Metrics: &counts{results: map[string]int{}}, Copies: s})
		noise := rand.NewChaCha8([32]byte{})
		for i := range machines {
			h := &held{k: k, id: fmt.Sprint("m", i), record: newRecord("t1", opening)}
			h.record.begin(Place{"", h.id})
			h.record.adopt(nil, 0, "")
			k.held[h.id] = h
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.copyLogs(ctx) }()
		oldest := time.Duration(0)
		for range seconds * 2 {
			for _, h := range k.held {
				piece := make([]byte, 8<<10)
				noise.Read(piece)
				h.record.add(piece)
				h.record.mu.Lock()
				if since := h.record.copied.since; !since.IsZero() {
					oldest = max(oldest, time.Since(since))
				}
				h.record.mu.Unlock()
			}
			time.Sleep(time.Second / 2)
		}
		cancel()
		<-done
		writes, bytes := s.counted()
		t.Logf("%d copies, %d bytes, the oldest text waited %s", writes, bytes, oldest)
		if most := seconds*RackdCopyRate + RackdCopyRate + consolecopy.MaxBytes; bytes > most {
			t.Errorf("%d bytes were written, more than %d", bytes, most)
		}
		if most := machines*consolecopy.MaxBytes*time.Second/RackdCopyRate + copyWithin; oldest > most {
			t.Errorf("text waited %s, more than %s", oldest, most)
		}
		if len(s.bodies) != machines {
			t.Errorf("%d machines of %d have a copy", len(s.bodies), machines)
		}
	})
}

// A site has no room for further copies. Consoles that have one there write it on, however many others wait for room. These ask
// seldom, and get their copies once there is room.
func TestAFullSite(t *testing.T) {
	s := newShelf(t)
	synctest.Test(t, func(t *testing.T) {
		const without = 100
		k := New(Config{Name: "r1", Nodes: ownsAll{}, Metrics: &counts{results: map[string]int{}}, Copies: s})
		add := func(id string) *held {
			h := &held{k: k, id: id, record: newRecord("t1", opening)}
			h.record.begin(Place{"", id})
			h.record.adopt(nil, 0, "")
			h.record.add([]byte("one "))
			k.mu.Lock()
			k.held[id] = h
			k.mu.Unlock()
			return h
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.copyLogs(ctx) }()
		first := add(nodeA)
		time.Sleep(2 * time.Second)
		s.set(func() { s.full = true })
		for i := range without {
			add(fmt.Sprint("m", i))
		}
		time.Sleep(10 * time.Second)
		first.record.add([]byte("two"))
		time.Sleep(5 * time.Second)
		if text, _ := s.text(t, nodeA); text != "one two" {
			t.Errorf("the copy that has its place is %q", text)
		}
		time.Sleep(10 * time.Minute)
		s.mu.Lock()
		if s.refused < without || s.refused > 12*without {
			t.Errorf("%d attempts of %d consoles in ten minutes", s.refused, without)
		}
		s.full = false
		s.mu.Unlock()
		time.Sleep(fullFor + 5*time.Second)
		cancel()
		<-done
		if len(s.bodies) != without+1 {
			t.Errorf("%d consoles of %d have a copy", len(s.bodies), without+1)
		}
	})
}

// Consoles were given away while the bus does not answer. A rackd that stops then waits for their copies no longer than for others.
func TestAStopEndsLastCopies(t *testing.T) {
	s := newShelf(t)
	with(t, s, func(b *bench) {
		b.says("text")
		s.set(func() { s.silent = true })
		b.owns(false)
		began := time.Now()
		b.stop()
		if took := time.Since(began); took > lastWithin {
			t.Errorf("the stop took %s", took)
		}
	})
}
