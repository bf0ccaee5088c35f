package watched

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func open(t *testing.T, text string) (path string, f *Files[string]) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	write(t, path, text)
	f, err := Open(func(texts [][]byte) (string, error) {
		if strings.HasPrefix(string(texts[0]), "bad") {
			return "", errors.New("it is bad")
		}
		return string(texts[0]), nil
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path, f
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsBadLeavesWhatWasGood(t *testing.T) {
	path, f := open(t, "one")
	for _, step := range []struct {
		text          string
		changed, fail bool
		want          string
	}{{"one", false, false, "one"}, {"two", true, false, "two"}, {"bad", false, true, "two"}, {"bad", false, false, "two"}, {"three", true, false, "three"}} {
		write(t, path, step.text)
		changed, err := f.Refresh()
		if changed != step.changed || (err != nil) != step.fail || f.Get() != step.want {
			t.Fatalf("%q: changed %t, error %v, says %q", step.text, changed, err, f.Get())
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Refresh(); !errors.Is(err, os.ErrNotExist) || f.Get() != "three" {
		t.Fatalf("without the file: %v, says %q", err, f.Get())
	}
	if changed, err := f.Refresh(); changed || err != nil {
		t.Fatalf("still without the file, which was said: changed %t, %v", changed, err)
	}
	write(t, path, "three")
	if changed, err := f.Refresh(); changed || err != nil {
		t.Fatalf("the file is there again: changed %t, %v", changed, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Refresh(); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("once more without the file: %v", err)
	}
}

func TestOpenFailsOnABadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if _, err := Open(func([][]byte) (int, error) { return 0, nil }, path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("no file: %v", err)
	}
}

func TestFollowRefreshes(t *testing.T) {
	path, f := open(t, "one")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended, now := make(chan error), make(chan os.Signal)
		go func() { ended <- Follow(ctx, time.Second, now, slog.New(slog.DiscardHandler), f) }()
		write(t, path, "two")
		time.Sleep(1500 * time.Millisecond) // of the bubble's clock
		synctest.Wait()
		if f.Get() != "two" {
			t.Errorf("says %q", f.Get())
		}
		write(t, path, "three")
		now <- os.Interrupt // any signal: who calls Follow chooses
		synctest.Wait()
		if f.Get() != "three" {
			t.Errorf("asked to read again, says %q", f.Get())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
