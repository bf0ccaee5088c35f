package imagecache

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A file that is written to while rackd reads it is no image: without a checksum, only this tells a mixture of two versions.
func TestAFileThatChangesWhileItIsRead(t *testing.T) {
	for name, content := range map[string]string{
		"same size": strings.Repeat("b", 1000), "grown": strings.Repeat("b", 1500), "cut": strings.Repeat("b", 700), "emptied": "",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "image")
			write := func(content string, at time.Time) {
				t.Helper()
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
			}
			write(strings.Repeat("a", 1000), time.Unix(1e9, 0))
			c := openCache(t, Config{AllowedDirs: []string{dir}})
			body, size, err := c.openFile(path, nil)
			if err != nil || size != 1000 {
				t.Fatal(size, err)
			}
			defer body.Close()
			if _, err := io.ReadFull(body, make([]byte, 500)); err != nil {
				t.Fatal(err)
			}
			write(content, time.Unix(1e9+1, 0))
			if rest, err := io.ReadAll(body); err == nil || !strings.Contains(err.Error(), "was written to while rackd read it") {
				t.Errorf("%d more bytes, of another version, were taken: %v", len(rest), err)
			}
		})
	}
}
