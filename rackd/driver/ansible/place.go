package ansible

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ironyard/ironyard/protocol/filelock"
)

const (
	placeName = "ironyard-ansible-"
	placeLock = "lock"
)

// place is the folder with the files of one playbook. Secrets lie there. Its lock says that the rackd which has made it lives.
type place struct {
	dir     string
	release func()
}

// newPlace makes a folder. It gets the name by which sweep finds it when it is locked.
func newPlace() (p place, err error) {
	made, err := os.MkdirTemp("", "."+placeName)
	if err != nil {
		return p, err
	}
	if p.release, err = filelock.Try(filepath.Join(made, placeLock)); err != nil {
		return p, errors.Join(err, os.RemoveAll(made))
	}
	p.dir = filepath.Join(filepath.Dir(made), filepath.Base(made)[1:])
	if err := os.Rename(made, p.dir); err != nil {
		p.release()
		return p, errors.Join(err, os.RemoveAll(made))
	}
	return p, nil
}

// remove takes the folder away.
func (p place) remove() error {
	defer p.release()
	return os.RemoveAll(p.dir)
}

// sweep takes away the folders of rackds that were killed. Their playbooks have ended with them. Those of rackds that live, and of other
// users, stay.
func sweep() error {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), placeName+"*"))
	if err != nil {
		return err
	}
	var left []error
	for _, dir := range found {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() || !ours(info) {
			continue
		}
		lock := filepath.Join(dir, placeLock)
		if _, err := os.Lstat(lock); errors.Is(err, fs.ErrNotExist) {
			continue // of another program, or of a rackd from before there were locks, which may live
		}
		release, err := filelock.Try(lock)
		if errors.Is(err, filelock.ErrHeld) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = place{dir, release}.remove()
		}
		if err != nil {
			left = append(left, fmt.Errorf("files of a playbook whose rackd was killed stay in %s: %w", dir, err))
		}
	}
	return errors.Join(left...)
}

func ours(info os.FileInfo) bool {
	owner, is := info.Sys().(*syscall.Stat_t)
	return is && int(owner.Uid) == os.Geteuid()
}
