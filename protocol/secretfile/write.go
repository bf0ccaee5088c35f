package secretfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Write writes a file with a secret beside its place, for its owner's eyes, and renames it: a
// reader sees the old or the new one, and an old file's wider mode does not stay.
func Write(path string, text []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
