package tempest

import (
	"bufio"
	"bytes"
	_ "embed"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/e2e/clients/debian"
)

//go:embed identity.py
var keystoneProgram []byte

// startKeystone runs a Keystone whose catalog has the API at endpoint, and returns its URL.
func startKeystone(t *testing.T, s *debian.System, endpoint string) string {
	t.Helper()
	cmd := s.Command(t, "python3", s.Put(t, "identity.py", keystoneProgram), s.Dir+"/keystone", endpoint)
	var told bytes.Buffer
	cmd.Stderr = &told
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
		if t.Failed() {
			t.Logf("Keystone said:\n%s", &told)
		}
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("Keystone did not start: %v (Debian's package python3-keystone has it)", err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port) + "/v3"
}
