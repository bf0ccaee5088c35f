package site

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
)

// What members write is for their owner's eyes, whatever the umask, also where a file was open
// to others before; and each file is replaced as a whole.
func TestFilesWithSecretsAreTheirOwners(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	f := newFleet(t)
	address := loopback()
	members := []*membership.Member{
		f.join(join.Scope{Role: join.Hub, Name: "hub-1", Address: loopback(), Peers: []string{loopback()}}),
		f.join(join.Scope{Role: join.Bus, Site: "east", Name: "east-1", Address: address, Peers: []string{address, loopback()}}),
		f.join(join.Scope{Role: join.Rackd, Site: "east", Name: "r1", Group: "rack-a"}),
	}
	for _, m := range members {
		if m.Scope.Role == join.Rackd {
			continue
		}
		if _, err := WriteConfig(m, m.Scope.Address); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range members {
		opened := map[string]uint64{}
		err := filepath.WalkDir(m.Dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			opened[path] = info.Sys().(*syscall.Stat_t).Ino
			return os.Chmod(path, 0o644) // as an older program or an operator has left it
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m.Scope.Role != join.Rackd {
			f.serve(m)
		}
		rewritten := 0
		err = filepath.WalkDir(m.Dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.IsDir() && (e.Name() == "jetstream" || e.Name() == "accounts") {
				return fs.SkipDir // nats-server's, below a folder that is closed
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil || e.IsDir() {
				if mode := info.Mode().Perm(); e.IsDir() && mode&0o077 != 0 {
					t.Errorf("%s: folder %s is open to others: %o", m.Scope, e.Name(), mode)
				}
				return nil
			}
			secret := strings.Contains(string(text), "PRIVATE KEY") || strings.Contains(string(text), "assword") || strings.Contains(string(text), "SEED") || e.Name() == membership.KeysFile
			switch old, was := opened[path]; {
			case !secret:
			case info.Mode().Perm() != 0o600:
				t.Errorf("%s: %s holds a secret and has mode %o", m.Scope, e.Name(), info.Mode().Perm())
			case was && old == info.Sys().(*syscall.Stat_t).Ino:
				t.Errorf("%s: %s was written in place", m.Scope, e.Name())
			default:
				rewritten++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if rewritten == 0 {
			t.Errorf("%s: no file with a secret was seen", m.Scope)
		}
	}
}
