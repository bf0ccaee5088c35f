package testimage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// epoch is the time of every file in the image, in seconds since 1970; FAT knows no
// time before 1980.
const epoch = "1767225600"

// run runs a program in dir and returns its standard output; its error carries what
// the program complained.
func run(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	path, err := look(name)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	// No configuration of the user's may change the image; mtools reads MTOOLSRC and
	// takes times from SOURCE_DATE_EPOCH.
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC", "MTOOLSRC=/dev/null", "SOURCE_DATE_EPOCH="+epoch)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.Bytes(), nil
}

// look finds a program, also where the PATH of ordinary users does not reach.
func look(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		path, err = exec.LookPath(filepath.Join("/usr/sbin", name))
	}
	if err != nil {
		return "", fmt.Errorf("%s is missing (Debian packages: %s): %w", name, strings.Join(Packages, " "), err)
	}
	return path, nil
}
