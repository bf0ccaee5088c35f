package machine

import (
	"os/exec"
	"testing"

	"github.com/ironyard/ironyard/ops/virtual/netns"
)

// What tests have that reach a machine through its BMC: the package of its adapter
// imports this one.
var (
	Program       = program
	Sector        = sector
	BootDisk      = bootDisk
	ISCSITarget   = target
	NeedsFirmware = needsFirmware
	NeedsTime     = needsTime
	WaitFirmware  = waitFirmware
	WaitOff       = waitOff
	PowerOffLong  = powerOffLong
	PowerOff      = powerOff
	OpenForTest   = open
)

const (
	DiskFile = diskFile
	TestMAC  = testMAC
	ServedAt = servedAt
)

// Wire is what serve returns.
type Wire struct{ *served }

func Serve(t *testing.T, files map[string][]byte) Wire {
	t.Helper()
	return Wire{serve(t, files)}
}

func (n Wire) Namespace() *netns.Namespace { return n.ns }

func (n Wire) Requests() []string { return n.requests() }

func (m *Machine) Block(t *testing.T) (inserted bool) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	var devices []struct {
		Qdev     string
		Inserted *struct{ File string }
	}
	if err := m.proc.client.Execute(t.Context(), "query-block", nil, &devices); err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		if d.Qdev == driveID {
			return d.Inserted != nil
		}
	}
	t.Fatalf("no drive in %+v", devices)
	return false
}

// Run is a foreign program's output; its failure ends the test.
func Run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
	return string(out)
}
