package boot

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/release"
)

// The agent says which version it is, as the other programs do. It ends the process, so that is another one.
func TestVersion(t *testing.T) {
	if os.Getenv("AGENT_VERSION") != "" {
		os.Exit(Main([]string{"--version"}))
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVersion$")
	cmd.Env = append(os.Environ(), "AGENT_VERSION=1")
	out, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(out), "agent "+release.Version+" (") {
		t.Errorf("%q, %v", out, err)
	}
}
