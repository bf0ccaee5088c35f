package ramdisk

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/ops/virtual/fleet/pace"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// An agent exports its disk to another machine until its next command that has to do with disks, or its end. It refuses a secret that
// firmware does not take.
func TestLendsItsDisk(t *testing.T) {
	if _, err := exec.LookPath("tgtd"); err != nil {
		t.Skip("NOT RUN: needs tgtd, of Debian's package tgt")
	}
	m := start(t, "127.0.0.27:9999", pace.Timings{})
	m.Scratch = t.TempDir()
	ended := false
	defer func() {
		if !ended {
			m.cut(errCut)
			<-m.ended
		}
	}()
	const iqn = "iqn.2026-11.org.example:lent"
	lend := func(id, secret string) agentapi.Command {
		return m.command(agentapi.CmdExecCleanStep, id, agentapi.StepParams{Step: map[string]any{"step": agentapi.StepExportVolume, "interface": "deploy",
			"args": map[string]any{"initiator": "iqn.2026-11.org.example:other", "auth_username": "other", "auth_password": secret, "target_iqn": iqn}}}, true)
	}
	if got := lend("w-1/a", "short"); got.Error == nil || m.Volume() != "" {
		t.Errorf("with a short secret: %+v, %q", got.Error, m.Volume())
	}
	listens := func(result string) error {
		_, after, _ := strings.Cut(result, `"target_portal":"`)
		portal, _, _ := strings.Cut(after, `"`)
		c, err := net.Dial("tcp", portal)
		if err == nil {
			c.Close()
		}
		return err
	}
	got := lend("w-1/b", "0123456789ab")
	if err := listens(string(got.Result)); got.Error != nil || err != nil || m.Volume() != iqn {
		t.Errorf("%+v %s, %v, %q", got.Error, got.Result, err, m.Volume())
	}
	if erased := m.command(agentapi.CmdExecCleanStep, "w-1/c", agentapi.StepParams{Step: map[string]any{"step": "erase_devices", "interface": "deploy"}}, true); erased.Error != nil || m.Volume() != "" {
		t.Errorf("after an erasure: %+v, %q", erased.Error, m.Volume())
	}
	if err := listens(string(got.Result)); err == nil {
		t.Error("the target of before takes connections")
	}
	lend("w-1/d", "0123456789ab")
	m.cut(errCut)
	<-m.ended
	if ended = true; m.Volume() != "" {
		t.Errorf("an agent without power exports %q", m.Volume())
	}
}
