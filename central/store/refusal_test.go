package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/powercut"
)

// A disk that is full can be read: that no write finds room is told for as long as it is so.
func TestRefusal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "central.db")
	disk, stop, err := powercut.Start(path)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	s, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	written := 0
	write := func() error {
		return s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			written++
			return tx.InsertSecret(ctx, &store.Secret{Name: fmt.Sprint("secret ", written), Value: "x"})
		})
	}
	if err := write(); err != nil || s.Refusal() != nil {
		t.Fatalf("with room: %v, refusal %v", err, s.Refusal())
	}
	disk.Fill(func(string) bool { return true })
	if err := write(); err == nil {
		t.Fatal("a full disk took a write")
	}
	no := s.Refusal()
	if no == nil || !strings.Contains(no.Err.Error(), "full") || no.Since.IsZero() {
		t.Errorf("refusal %+v", no)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("it does not answer: %v", err)
	}
	disk.Fill(nil)
	if err := write(); err != nil || s.Refusal() != nil {
		t.Errorf("with room again: %v, refusal %v", err, s.Refusal())
	}
}
