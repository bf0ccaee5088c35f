package uefivars

import (
	"fmt"
	"os"
)

// ReadFile reads the variable store in a file.
func ReadFile(path string) (*Store, error) {
	image, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := Parse(image)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// WriteFile replaces the file by the store, all or nothing: a crash leaves the old one. The
// file is its owner's alone, because it may hold secrets of iSCSI.
func (s *Store) WriteFile(path string) error {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(s.image)
	if err == nil {
		err = f.Truncate(int64(len(s.image) + s.behind)) // zeros that take no room
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(next, path)
}
