package membership

import (
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/join"
)

// A server that the folder names no more is not dialled any more, by a process that was started before.
func TestDialerFollowsTheFolder(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	name := func(m *Member, servers ...string) {
		t.Helper()
		m.Servers = servers
		text, err := json.Marshal(m)
		if err == nil {
			err = os.WriteFile(m.Path(memberFile), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m := &Member{Dir: t.TempDir(), Scope: join.Scope{Role: join.Rackd, Site: "east", Group: "rack-a", Name: "a1"}}
	name(m, "127.0.0.2", l.Addr().String())
	running, err := Open(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := running.Dialer().Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatalf("a server of the folder: %v", err)
	}
	conn.Close()
	if _, err := running.Dialer().Dial("tcp", "127.0.0.3:4222"); err == nil || !strings.Contains(err.Error(), "not dialled") {
		t.Errorf("a server that another has named: %v", err)
	}
	name(m, "127.0.0.2")
	if _, err := running.Dialer().Dial("tcp", l.Addr().String()); err == nil || !strings.Contains(err.Error(), "not dialled") {
		t.Errorf("a server that the folder names no more: %v", err)
	}
}
