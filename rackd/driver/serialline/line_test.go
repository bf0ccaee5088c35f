package serialline

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// silent is a stream whose other end takes nothing, says nothing and is asked whether it is there.
type silent struct {
	closed chan struct{}
	asked  atomic.Int64
	gone   atomic.Bool
	wrote  chan []byte
}

func (s *silent) Read([]byte) (int, error) { <-s.closed; return 0, io.ErrClosedPipe }

func (s *silent) Write(p []byte) error {
	select {
	case s.wrote <- p:
		return nil
	case <-s.closed:
		return io.ErrClosedPipe
	}
}

func (s *silent) Break() error { return driver.ErrUnsupported }

func (s *silent) Alive(ctx context.Context) error {
	s.asked.Add(1)
	if !s.gone.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *silent) Close() {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
}

func newLine(s *silent, f driver.Fence) driver.Line {
	return New(s, Options{Node: &node.Document{UUID: "b3d1", Name: "web1"}, Fence: f, What: "the console of s3cret", Secrets: []string{"s3cret"}})
}

// An other end that does not answer ends the line, which says why; one that answers does not.
func TestALineWhoseOtherEndIsGoneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{closed: make(chan struct{}), wrote: make(chan []byte)}
		l := newLine(s, &drivertest.Fence{})
		why := make(chan error, 1)
		go func() {
			_, err := l.Read(make([]byte, 16))
			why <- err
		}()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(why) > 0 || s.asked.Load() < 9 {
			t.Fatalf("asked %d times, and it ended: %v", s.asked.Load(), <-why)
		}
		s.gone.Store(true)
		began := time.Now()
		err := <-why
		if took := time.Since(began); took > time.Minute || !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("after %s: %v", took, err)
		}
		if err := l.Write(t.Context(), []byte("x")); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("typed into a line that has ended: %v", err)
		}
	})
}

// A write that finds no end leaves open how much was taken, and ends the line: the next bytes would follow a part of it.
func TestAWriteWithoutAnEndEndsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{closed: make(chan struct{}), wrote: make(chan []byte)}
		l := newLine(s, &drivertest.Fence{})
		if err := l.Break(t.Context()); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("a break: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Write(ctx, []byte("x")); !errors.Is(err, driver.ErrUnknown) || strings.Contains(err.Error(), "node web1: a part may have been sent to the console of s3cret: s3cret") {
			t.Errorf("%v, want ErrUnknown", err)
		}
		if _, err := l.Read(make([]byte, 16)); !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "took nothing more") {
			t.Errorf("the line goes on: %v", err)
		}
		l.Close(t.Context())
	})
}

// A rackd that has lost the node types nothing, and the line is there for its successor's reasons only.
func TestALineAsksTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := &silent{closed: make(chan struct{}), wrote: make(chan []byte, 1)}, &drivertest.Fence{}
		l := newLine(s, f)
		f.Lose()
		if err := l.Write(t.Context(), []byte("x")); !errors.Is(err, driver.ErrFenced) || len(s.wrote) > 0 {
			t.Errorf("%v", err)
		}
		l.Close(t.Context())
		l.Close(t.Context())
		if _, err := l.Read(make([]byte, 16)); err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "closed here") {
			t.Errorf("%v", err)
		}
	})
}
