package bus_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
)

// A stolen rackd beats thousands of times while central is busy. What another one says then is heard all the same.
func TestOneRackdDoesNotDrownTheOthers(t *testing.T) {
	s := bustest.Open(t)
	beats, err := s.Beats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		if err := s.Conn.Publish(bus.BeatSubject("rack1", "thief"), []byte("t 1")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Conn.Publish(bus.BeatSubject("rack1", "survivor"), []byte("s gone:rack1.dead")); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	s.Conn.SetClosedHandler(func(*nats.Conn) { close(closed) })
	if err := s.Conn.Drain(); err != nil { // all that has come is heard, and no beat is taken before
		t.Fatal(err)
	}
	<-closed
	for len(beats) > 0 {
		if b := <-beats; b.Gone == "rack1.dead" {
			return
		}
	}
	t.Error("the survivor is not heard")
}
