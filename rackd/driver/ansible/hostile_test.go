package ansible

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A rackd is killed while a playbook runs, and so is the playbook: nobody takes away its files, with secrets among them. The next rackd of
// the host does, and leaves those of rackds that live.
func TestFilesOfAKilledRackd(t *testing.T) {
	if os.Getenv("IRONYARD_TEST_KILLED") != "" {
		p, err := newPlace()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(p.dir, "configdrive"), []byte("s3cret"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(os.Getenv("IRONYARD_TEST_KILLED"), []byte(p.dir), 0o600); err != nil {
			t.Fatal(err)
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		t.Fatal(self.Kill())
	}
	t.Setenv("TMPDIR", t.TempDir())
	note := filepath.Join(t.TempDir(), "dir")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFilesOfAKilledRackd$")
	child.Env = append(os.Environ(), "IRONYARD_TEST_KILLED="+note)
	out, err := child.CombinedOutput()
	if child.ProcessState.Exited() {
		t.Fatalf("the rackd was not killed: %v\n%s", err, out)
	}
	left, err := os.ReadFile(note)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(string(left), "configdrive")); err != nil {
		t.Fatal(err)
	}
	lives, err := newPlace()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(os.TempDir(), placeName+"of-another-program")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	folder := folder(t)
	if err := NewPlays(Settings{Folder: folder}).Ready(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(string(left)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the files of the killed rackd are there: %v", err)
	}
	for _, stays := range []string{lives.dir, other} {
		if _, err := os.Stat(stays); err != nil {
			t.Errorf("%s is gone: %v", stays, err)
		}
	}
	if err := lives.remove(); err != nil {
		t.Error(err)
	}
}
