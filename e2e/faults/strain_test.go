package faults

import (
	"crypto/sha256"
	"sync"
	"testing"
	"time"
)

// strain is by how much whoever else uses the machine holds up a program that sleeps and computes in
// turn, as those under test do. Bounds on how long something takes hold for programs
// that run when they want to: on a busy machine, where a takeover by three programs took 6.4 s
// instead of 4, they would say nothing of the programs. So tests add to them what the control
// in their own process was late meanwhile, which is next to nothing on an idle machine; what
// takes longer because of the programs does not make the control late.
type strain struct {
	stop chan struct{}
	done sync.WaitGroup
	late time.Duration
}

// The control's round: it sleeps for nap, then hashes block, which takes best where nobody disturbs it.
const nap = 10 * time.Millisecond

var block = make([]byte, 256<<10)

func round() time.Duration {
	began := time.Now()
	sha256.Sum256(block)
	return time.Since(began)
}

// strained begins to measure.
func strained(t *testing.T) *strain {
	t.Helper()
	best := round()
	for range 50 {
		best = min(best, round())
	}
	s := &strain{stop: make(chan struct{})}
	s.done.Go(func() {
		for {
			began := time.Now()
			select {
			case <-s.stop:
				return
			case <-time.After(nap):
			}
			round()
			// A millisecond is what timers are late anywhere.
			s.late += max(0, time.Since(began)-nap-best-time.Millisecond)
		}
	})
	t.Cleanup(func() { s.end() })
	return s
}

// end ends the measurement and returns how late the control was in all.
func (s *strain) end() time.Duration {
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	s.done.Wait()
	return s.late
}

// atMost fails the test if something took longer than bound and than the control was late meanwhile.
func (s *strain) atMost(t *testing.T, what string, took, bound time.Duration) {
	t.Helper()
	if late := s.end(); took > bound+late {
		t.Errorf("%s took %v, more than %v; others held up the control by %v meanwhile", what, took.Round(time.Millisecond), bound, late.Round(time.Millisecond))
	} else {
		t.Logf("%s took %v of %v; others held up the control by %v meanwhile", what, took.Round(time.Millisecond), bound, late.Round(time.Millisecond))
	}
}
