// Package debian finds the programs that Debian's packages of OpenStack bring: on this machine,
// or in a folder with a newer Debian that IRONYARD_OPENSTACK_ROOT names. It is for the tests with
// other people's clients and imports nothing of the project.
package debian

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// System is where the programs are. It has a folder of its own for a test.
type System struct {
	Dir  string // as the programs see it
	root string // empty: this system
}

// New makes the folder; it goes when the test ends.
func New(t *testing.T) *System {
	t.Helper()
	root := os.Getenv("IRONYARD_OPENSTACK_ROOT")
	if root == "" {
		return &System{Dir: t.TempDir()}
	}
	dir, err := os.MkdirTemp(filepath.Join(root, "tmp"), "ironyard-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &System{root: root, Dir: strings.TrimPrefix(dir, filepath.Clean(root))}
}

// Put writes a file into the folder and returns its path as the programs see it.
func (s *System) Put(t *testing.T, name string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.root, s.Dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(s.Dir, name)
}

// Command is a program that runs there, with an environment of its own, and that is killed
// when the test ends.
func (s *System) Command(t *testing.T, args ...string) *exec.Cmd {
	args = append([]string{"env", "-i", "--chdir=" + s.Dir, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=" + s.Dir}, args...)
	if s.root != "" {
		args = append([]string{"chroot", s.root}, args...)
	}
	return exec.CommandContext(t.Context(), args[0], args[1:]...)
}
