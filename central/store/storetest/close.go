package storetest

import (
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

// closeTwice: whoever is not sure closes a store once more.
func closeTwice(t *testing.T, address string) {
	s, err := store.Open(t.Context(), address, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	for range 2 {
		go func() { done <- s.Close() }()
	}
	for i := range 2 {
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("close: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("close %d of two did not return within 30 s", i+1)
		}
	}
	if err := s.Ping(t.Context()); err == nil {
		t.Error("a closed store answers")
	}
}
