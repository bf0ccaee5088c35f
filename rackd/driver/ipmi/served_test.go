package ipmi

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
)

const serveEnv = "IRONYARD_SERVE_BMCS"

// TestServeBMCs is the process of the BMCs that BenchmarkPowerSyncPass reads: what they cost is not what is measured.
func TestServeBMCs(t *testing.T) {
	var size int
	if text := os.Getenv(serveEnv); text == "" {
		t.Skip("the benchmark of power runs it in a process of its own")
	} else if err := json.Unmarshal([]byte(text), &size); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(fleet(t, size))
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.Write(append(text, '\n'))
	bufio.NewReader(os.Stdin).ReadByte() // until the benchmark ends
}

// served starts so many BMCs in a process of their own.
func served(b *testing.B, size string) (nodes []*node.Document) {
	b.Helper()
	c := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestServeBMCs$")
	c.Env = append(os.Environ(), serveEnv+"="+size)
	stop, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	said, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stop.Close(); c.Wait() })
	line, err := bufio.NewReader(said).ReadBytes('\n')
	if err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(line, &nodes); err != nil {
		b.Fatal(err)
	}
	return nodes
}
