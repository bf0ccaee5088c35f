package iscsideploy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// asked is an agent that counts what it is asked: its answers are what moves the deadline of the node's state.
type asked struct {
	driver.Agent
	n   int
	err error
}

func (a *asked) Host() string { return "127.0.0.1" }
func (a *asked) Commands(context.Context) ([]agentapi.Command, error) {
	a.n++
	return nil, a.err
}

// full is a writer whose places are all taken.
func full() *Writer {
	w := NewWriter(Settings{})
	for n := range most {
		w.begun[fmt.Sprint(n)] = true
	}
	return w
}

// A node whose image waits for its place keeps its time: with eight large images before it that takes longer than the deadline of the state
// (30 minutes), and its agent is well. Nothing but an answer of the agent moves that deadline. An agent that is silent is left to the
// deadline, and one that refuses ends the step.
func TestWaitingForAPlaceKeepsTheNodeAlive(t *testing.T) {
	for name, c := range map[string]struct{ err, ends error }{"well": {}, "silent": {driver.ErrUnreachable, nil}, "another's": {driver.ErrFenced, driver.ErrFenced}, "refuses": {driver.ErrDenied, driver.ErrDenied}} {
		synctest.Test(t, func(t *testing.T) {
			w, r, a := full(), drivertest.NewRig(), &asked{err: c.err}
			r.Node.InstanceInfo = map[string]any{"image_source": "http://i/os.img", "image_checksum": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
			task := r.Task(networkboot.IPXE())
			task.Agent = a
			var runs int
			for _, s := range New(direct.New(direct.Settings{}), w).DeploySteps(r.Node) {
				for s.Name == "write_image" && runs < 60 {
					runs++
					out, err := s.Run(t.Context(), task)
					poll, waits := out.Waiting()
					if !errors.Is(err, c.ends) || err == nil && !waits {
						t.Fatalf("%s: %v, %v", name, out, err)
					}
					if err != nil {
						return
					}
					time.Sleep(poll)
				}
			}
			if a.n != runs/5 {
				t.Errorf("%s: asked %d times in %d runs", name, a.n, runs)
			}
		})
	}
}

// Places go to who has asked first. Who asks no more holds up none, and keeps its number for a while.
func TestPlacesAreGivenInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := full()
		takes := func(work string, want bool) {
			t.Helper()
			if _, full := w.take(work); full == want {
				t.Errorf("%s: full is %v", work, full)
			}
		}
		for _, work := range []string{"a", "b", "c"} {
			takes(work, false)
		}
		time.Sleep(asksEvery)
		w.release("0")
		takes("c", false)
		takes("b", false)
		takes("a", true)
		takes("a", true) // again, before it has a transfer

		w.release("1")
		w.release("2")
		takes("d", false) // b and c have asked just now
		takes("c", true)
		time.Sleep(present + time.Second) // b was aborted, or lives with another rackd
		takes("d", true)
		w.release("3")
		takes("e", true)

		takes("f", false)
		takes("b", false) // it comes back before f
		w.release("a")
		takes("f", false)
		takes("b", true)

		w.yield("c") // its session broke: it goes on before those that have had none
		takes("c", true)
		w.release("c") // and at its end it holds up none
		takes("f", true)

		time.Sleep(remembered + time.Second)
		takes("g", false)
		if len(w.queue.works) != 1 {
			t.Errorf("%d works are remembered", len(w.queue.works))
		}
	})
}
