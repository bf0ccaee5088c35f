package clients

import (
	"bytes"
	_ "embed"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/e2e/clients/debian"
)

//go:embed sdk.py
var sdkProgram []byte

//go:embed cloud.py
var cloudProgram []byte

//go:embed nova.py
var novaProgram []byte

// TestOpenStackSDK calls each method of openstacksdk's bare metal proxy, and each of its
// cloud layer's for bare metal; and repeats what Nova's driver does with it.
func TestOpenStackSDK(t *testing.T) {
	for name, program := range map[string][]byte{"sdk.py": sdkProgram, "cloud.py": cloudProgram, "nova.py": novaProgram} {
		t.Run(name, func(t *testing.T) {
			s := debian.New(t)
			cmd := s.Command(t, "python3", s.Put(t, name, program), fleet(t))
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() }).Stop()
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s\n%s (Debian's package python3-openstacksdk)", err, stdout.String(), stderr.String())
			}
			if left := strings.TrimSpace(stdout.String()); left != "" {
				t.Errorf("methods of the library that were not called: %s", left)
			}
		})
	}
}
