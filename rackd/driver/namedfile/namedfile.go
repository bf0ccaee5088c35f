// Package namedfile reads the files that driver_info names, such as the authorities of a
// BMC's certificate. Who may write a node's driver_info chooses the name. So the file is
// opened beneath one folder that rackd's operator filled for this, and nowhere else.
//
// It imports nothing of the project. Invariants:
//   - No link leads out of the folder, and only regular files are opened: a pipe would hold
//     a BMC's turn, a device would never end.
//   - What is read is bounded.
//   - An error says the same whether the file is missing or may not be named. So errors do
//     not tell which files rackd's machine has.
package namedfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// MaxBytes bounds one file. A system's whole list of authorities has some 200 KiB.
const MaxBytes = 1 << 20

// ErrNone: the name leads to no file that may be named. Why is not told: see the package.
var ErrNone = errors.New("this rackd's folder for files that driver_info names has no regular file of that name, of at most 1 MiB")

// Folder holds the files that may be named; empty: none may.
type Folder string

// Read returns a file of the folder. The name is relative to the folder, or an absolute path
// below it. Errors wrap ErrNone.
func (f Folder) Read(name string) ([]byte, error) {
	text, err := f.read(name)
	if err == nil {
		return text, nil
	}
	if f == "" {
		return nil, fmt.Errorf("%w: it has none (rackd --ca-dir)", ErrNone)
	}
	return nil, fmt.Errorf("%w: %s (rackd --ca-dir)", ErrNone, string(f))
}

var errUnfit = errors.New("unfit")

// read is Read with errors that are not to be shown.
func (f Folder) read(name string) ([]byte, error) {
	if f == "" || name == "" {
		return nil, errUnfit
	}
	if filepath.IsAbs(name) {
		below, err := filepath.Rel(string(f), filepath.Clean(name))
		if err != nil {
			return nil, err
		}
		name = below
	}
	if !filepath.IsLocal(name) {
		return nil, errUnfit
	}
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// Looked at before it is opened: opening alone has effects on some devices.
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errUnfit)
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have been replaced by a pipe
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errUnfit)
	}
	text, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	if err == nil && len(text) > MaxBytes {
		err = errUnfit
	}
	return text, err
}
