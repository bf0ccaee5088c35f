package tempest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// system is where OpenStack's programs are: this one, or a folder with another Debian
// that IRONYARD_OPENSTACK_ROOT names. It has a folder of its own for a test.
type system struct {
	root string // empty: this system
	dir  string // as the programs see it
}

func newSystem(t *testing.T) *system {
	t.Helper()
	root := os.Getenv("IRONYARD_OPENSTACK_ROOT")
	if root == "" {
		return &system{dir: t.TempDir()}
	}
	dir, err := os.MkdirTemp(filepath.Join(root, "tmp"), "ironyard-tempest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &system{root: root, dir: strings.TrimPrefix(dir, filepath.Clean(root))}
}

// put writes a file into the folder and returns its path as the programs see it.
func (s *system) put(t *testing.T, name string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.root, s.dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(s.dir, name)
}

// command is a program that runs there, with an environment of its own, and that is killed
// when the test ends.
func (s *system) command(t *testing.T, args ...string) *exec.Cmd {
	args = append([]string{"env", "-i", "--chdir=" + s.dir, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=" + s.dir}, args...)
	if s.root != "" {
		args = append([]string{"chroot", s.root}, args...)
	}
	return exec.CommandContext(t.Context(), args[0], args[1:]...)
}
