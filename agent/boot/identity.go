package boot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

// bootID tells one boot of the ramdisk from another. The kernel's own id survives
// a restart of the agent, which is the same boot.
func bootID(ramdisk bool) (string, error) {
	if !ramdisk {
		return uuid.NewString(), nil
	}
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// readToken returns the token of an earlier run in this boot; empty if none.
func readToken(path string) string {
	if path == "" {
		return ""
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// keepToken keeps the token in memory-backed storage, for root's eyes.
func keepToken(path, token string) error {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keeping the agent token: %w", err)
	}
	if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
		return fmt.Errorf("keeping the agent token: %w", err)
	}
	return nil
}
