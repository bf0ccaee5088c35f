package efiboot

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"
)

// vars is a mounted efivarfs.
type vars string

func (v vars) name(variable string) string { return variable + "-" + globalGUID }

// read returns a variable without its attributes.
func (v vars) read(variable string) ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(string(v), v.name(variable)))
	if err != nil {
		return nil, fmt.Errorf("reading EFI variable %s: %w", variable, err)
	}
	if len(raw) < 4 {
		return nil, fmt.Errorf("reading EFI variable %s: only %d bytes", variable, len(raw))
	}
	return raw[4:], nil
}

func (v vars) order() ([]uint16, error) {
	raw, err := v.read("BootOrder")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var out []uint16
	for ; len(raw) >= 2; raw = raw[2:] {
		out = append(out, le.Uint16(raw))
	}
	return out, err
}

var bootEntry = regexp.MustCompile(`^Boot([0-9A-Fa-f]{4})-` + globalGUID + `$`)

// entries lists the numbers in use and those of our label.
func (v vars) entries() (used map[uint16]bool, ours []uint16, err error) {
	files, err := os.ReadDir(string(v))
	if err != nil {
		return nil, nil, fmt.Errorf("listing EFI variables: %w", err)
	}
	used = map[uint16]bool{}
	for _, f := range files {
		m := bootEntry.FindStringSubmatch(f.Name())
		if m == nil {
			continue
		}
		n64, err := strconv.ParseUint(m[1], 16, 16)
		if err != nil {
			continue
		}
		n := uint16(n64)
		used[n] = true
		// An entry that cannot be read is somebody else's.
		if raw, err := v.read(entryName(n)); err == nil && len(raw) > 6 && bytes.HasPrefix(raw[6:], utf16z(Label)) {
			ours = append(ours, n)
		}
	}
	return used, ours, nil
}

// write sets a variable in a single write, as efivarfs demands.
func (v vars) write(variable string, data []byte) error {
	path := filepath.Join(string(v), v.name(variable))
	if err := mutable(path); err != nil {
		return fmt.Errorf("writing EFI variable %s: %w", variable, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("writing EFI variable %s: %w", variable, err)
	}
	_, err = f.Write(append(le.AppendUint32(nil, attributes), data...))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("writing EFI variable %s: %w (is the firmware's variable store full?)", variable, err)
	}
	return nil
}

func (v vars) remove(variable string) error {
	path := filepath.Join(string(v), v.name(variable))
	err := mutable(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("removing EFI variable %s: %w", variable, err)
	}
	return nil
}

// immutable is FS_IMMUTABLE_FL of linux/fs.h, which x/sys does not have.
const immutable = 0x10

// mutable clears the immutable flag with which the kernel guards variables.
func mutable(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil // an ordinary folder, in tests
	}
	if err != nil || flags&immutable == 0 {
		return err
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags&^immutable)
}
