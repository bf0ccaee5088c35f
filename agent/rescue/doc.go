// Package rescue lets people into the ramdisk: by SSH and at the machine's console, as the user "rescue" with a
// password, once rackd has set one (rescue.finalize_rescue).
//
// It may import protocol/shacrypt. Invariants: the password is the only way in. The machine keeps its hash, in memory,
// and never the password. Callers who have not logged in are bounded in number and in time. A wrong password costs
// its caller failurePause. SSH gives sessions only: no forwarding, no subsystem.
package rescue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/protocol/shacrypt"
)

// User is the only one who may log in.
const User = "rescue"

// Bounds on callers who have not logged in yet, and on those who have.
const (
	graceTime    = time.Minute
	maxPending   = 16
	maxPerSource = 3
	maxTries     = 3
	maxLogins    = 16
	maxSessions  = 8
	failurePause = 2 * time.Second
	// installing bounds the time in which busybox makes its links.
	installing = 30 * time.Second
	// hangUp is how long programs of a session have after SIGHUP.
	hangUp = 5 * time.Second
)

// ErrNoShell means that the ramdisk has no shell, so that a user could do nothing in it.
var ErrNoShell = errors.New("this ramdisk has no shell: build one for rescues (ironyard ramdisk build --rescue) and give it to rackd as --rescue-ramdisk, or name one in driver_info rescue_kernel and rescue_ramdisk")

// Server lets the user in. Its fields are set by New; it is safe for concurrent use.
type Server struct {
	log    *slog.Logger
	hash   string
	signer ssh.Signer
	shell  string
	pause  time.Duration // after a wrong password
	gate   gate
}

// New returns a server for a password's hash and a host key (NewState). The shell is one that the ramdisk has.
func New(log *slog.Logger, hash string, key []byte) (*Server, error) {
	if err := shacrypt.Check(hash); err != nil {
		return nil, fmt.Errorf("the hash of the rescue password cannot be used: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("the host key of the rescue cannot be read: %w", err)
	}
	shell, err := findShell("/")
	if err != nil {
		return nil, err
	}
	return &Server{log: log, hash: hash, signer: signer, shell: shell, pause: failurePause, gate: gate{of: map[string]int{}}}, nil
}

// Fingerprint is that of the host key, as ssh-keygen -l writes it.
func (s *Server) Fingerprint() string { return ssh.FingerprintSHA256(s.signer.PublicKey()) }

// allows reports whether a user may come in. It takes as long for a wrong name as for a wrong password.
func (s *Server) allows(user, password string) bool {
	return shacrypt.Verify(s.hash, password) && user == User
}

// findShell returns a shell below root. Busybox gets links to all its commands.
func findShell(root string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), installing)
	defer cancel()
	busybox := filepath.Join(root, "bin/busybox")
	if _, err := os.Stat(busybox); err == nil {
		if _, err := os.Lstat(filepath.Join(root, "bin/sh")); err != nil {
			if out, err := exec.CommandContext(ctx, busybox, "--install", "-s", filepath.Join(root, "bin")).CombinedOutput(); err != nil {
				return "", fmt.Errorf("make the commands of busybox: %w: %.200s", err, out)
			}
		}
	}
	for _, name := range []string{"bin/bash", "bin/sh"} {
		if path := filepath.Join(root, name); executable(path) {
			return path, nil
		}
	}
	return "", ErrNoShell
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
