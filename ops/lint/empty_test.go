package lint

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// A file without a byte says nothing, and a script without one succeeds at whatever it was for: make fuzz ran such a
// one, and no fuzz test.
func TestNoFileIsEmpty(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && (strings.HasPrefix(d.Name(), ".") && path != "../.." || path == filepath.Join("../..", "bin")) {
				return filepath.SkipDir
			}
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().IsRegular() && info.Size() == 0 {
			t.Errorf("%s is empty (%v): fill or remove it", path, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
