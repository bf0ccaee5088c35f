package bootloader

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/filesystem"
)

// ends returns what do returns, and fails if that takes long: a tenant's image holds up no command.
func ends(t *testing.T, do func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(5 * time.Second):
		t.Fatal("it does not end")
		return nil
	}
}

// What an image has in the place of a file that is read or written may be anything.
func TestHostileFstab(t *testing.T) {
	for name, plant := range map[string]func(at string) error{
		"a pipe": func(at string) error { return unix.Mkfifo(at, 0o644) },
		"a link to one": func(at string) error {
			return errors.Join(unix.Mkfifo(at+".pipe", 0o644), os.Symlink("fstab.pipe", at))
		},
		"a terabyte":      func(at string) error { return errors.Join(os.WriteFile(at, nil, 0o644), os.Truncate(at, 1<<40)) },
		"a link outwards": func(at string) error { return os.Symlink("/etc/hostname", at) },
		"a folder":        func(at string) error { return os.Mkdir(at, 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, map[string]string{"etc/passwd": "x"})
			if err := plant(filepath.Join(root.Name(), "etc/fstab")); err != nil {
				t.Fatal(err)
			}
			i := &installation{root: root, disk: Disk{RootFS: filesystem.Found{UUID: "1"}, ESPUUID: "2-3"}}
			if err := ends(t, i.addToFstab); err == nil {
				t.Error("a line was added to it")
			}
			if err := ends(t, func() error { return sums(root, map[string]sum{}) }); err == nil {
				t.Error("it has a checksum")
			}
		})
	}
}

// Nothing reads for hours what an image has put into the folder of its boot loader.
func TestHostileFolderOfTheBootLoader(t *testing.T) {
	root := tree(t, map[string]string{"boot/grub/grub.cfg": "menu"})
	if err := os.Truncate(filepath.Join(root.Name(), "boot/grub/grub.cfg"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if err := ends(t, func() error { return sums(root, map[string]sum{}) }); !errors.As(err, new(*CannotError)) {
		t.Errorf("a terabyte: %v", err)
	}
}
