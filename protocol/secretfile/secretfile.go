// Package secretfile reads and writes files with keys, tokens and passwords, and says so where
// more people may read them than their owner means.
//
// Read warns and does not refuse: containers get their secrets as files that are everybody's
// in there. It imports nothing of the project.
package secretfile

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
)

// Read reads a file, after Check.
func Read(path string, log *slog.Logger) ([]byte, error) {
	Check(path, log)
	return os.ReadFile(path)
}

// Check warns where users of the machine who are neither the file's owner nor of its group may
// read or change it. A file that is not there, or is none (a pipe), is nobody's concern here.
func Check(path string, log *slog.Logger) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o007 == 0 {
		return
	}
	log.Warn("a file with a secret is open to every user of this machine", "file", path, "mode", fmt.Sprintf("%04o", info.Mode()&fs.ModePerm), "do", "chmod o= "+path)
}
