package kmod

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

func TestModulesThatCannotBeLoadedAreOnlyTold(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("# none\n\n/no/such/module.ko\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	Load(slog.New(slog.DiscardHandler), list)
	Load(slog.New(slog.DiscardHandler), list+"-missing")
}
