package clients

import (
	"bytes"
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

//go:embed sdk.py
var sdkProgram []byte

// TestOpenStackSDK drives each method of openstacksdk's bare metal proxy.
func TestOpenStackSDK(t *testing.T) {
	program := filepath.Join(t.TempDir(), "sdk.py")
	if err := os.WriteFile(program, sdkProgram, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, debianPython, program, fleet(t))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s\n%s (Debian's package python3-openstacksdk)", err, stdout.String(), stderr.String())
	}
	if left := strings.TrimSpace(stdout.String()); left != "" {
		t.Errorf("methods of the proxy that were not called: %s", left)
	}
}
