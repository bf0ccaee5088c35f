package logship

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSendsBatchesAndSurvivesOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Shipper
		var got bytes.Buffer
		var down atomic.Bool
		down.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Run(ctx, func(_ context.Context, b []byte) error {
				if down.Load() {
					return errors.New("away")
				}
				got.Write(b)
				return nil
			})
		}()
		s.Write([]byte("one\n"))
		<-time.After(5 * time.Second)
		s.Write([]byte("two\n"))
		down.Store(false)
		<-time.After(20 * time.Second)
		s.Write([]byte("the end\n"))
		cancel()
		<-done
		if got.String() != "one\ntwo\nthe end\n" {
			t.Errorf("sent %q", got.String())
		}
		if string(s.Collect()) != "one\ntwo\nthe end\n" {
			t.Errorf("kept %q", s.Collect())
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	var s Shipper
	line := []byte(strings.Repeat("x", 2*lineMax))
	for range 500 {
		s.Write(line)
	}
	if s.pending.bytes > pendingMax || s.kept.bytes > keptMax {
		t.Errorf("holds %d and %d bytes", s.pending.bytes, s.kept.bytes)
	}
	if !bytes.HasPrefix(s.Collect(), []byte("(")) {
		t.Error("does not tell that lines are lost")
	}
}
