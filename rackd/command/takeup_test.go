package command

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
	"github.com/ironyard/ironyard/protocol/seal"
)

// A rackd that runs uses the keys that a renewal brings, and says when it cannot.
func TestKeysOfARenewalAreTakenUp(t *testing.T) {
	old, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	m := &membership.Member{Dir: t.TempDir(), Scope: join.Scope{Group: "rack-a"}}
	ring := seal.NewKeyring("rack-a", old)
	for _, c := range []struct {
		key  *seal.Key
		says string
	}{{fresh.WithOlder(old), "are in use"}, {fresh, "are in use"}, {stranger, "restart this rackd"}} {
		if err := os.WriteFile(m.Path(membership.KeysFile), []byte(c.key.Text()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		flags{}.takeUp(m, ring, slog.New(slog.NewTextHandler(&said, nil)))
		if !strings.Contains(said.String(), c.says) {
			t.Errorf("it said %q, want %q", said.String(), c.says)
		}
		if text, err := ring.Of("rack-a").Open(seal.Label{Of: "n"}, fresh.Seal(seal.Label{Of: "n"}, "x")); err != nil || text != "x" {
			t.Errorf("the new generation: %q, %v", text, err)
		}
	}
}
