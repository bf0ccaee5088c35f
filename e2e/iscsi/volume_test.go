package iscsi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// A disk that the step export_volume makes another machine's volume, as libiscsi's programs and QEMU's initiator see it: they show a
// name and an account, and the target shows none.
func TestVolumeOfTheAgent(t *testing.T) {
	m := boot(t)
	args := agentapi.ExportVolumeArgs{Initiator: "iqn.2026-11.org.example:machine", User: "machine", Secret: "twelve-or-more", Disk: map[string]any{"serial": "DISK1"}}
	step := agentapi.StepParams{Node: map[string]any{"uuid": "0198f5c2"}, Ports: []any{}, Step: map[string]any{"interface": "deploy", "step": agentapi.StepExportVolume, "args": args}}
	var answer struct {
		Result agentapi.ExportedVolume `json:"service_result"`
		Step   json.RawMessage         `json:"service_step"`
	}
	m.done(agentapi.CmdExecServiceStep, step, &answer)
	v := answer.Result
	if v.IQN != "iqn.2008-10.org.openstack:0198f5c2" || v.LUN != 1 || v.Bytes != diskSize || !strings.HasSuffix(v.Portal, ":3260") || strings.Contains(string(answer.Step), args.Secret) {
		t.Errorf("%+v, %s", v, answer.Step)
	}
	t.Logf("%+v", v)
	login := func(user, secret, initiator string) (string, error) {
		account := fmt.Sprintf("iscsi://%s%%%s@127.0.0.1:%d/%s/%d", user, secret, m.Opened, v.IQN, v.LUN)
		out, err := exec.CommandContext(m.ctx, "iscsi-readcapacity16", "-i", initiator, "-s", account).CombinedOutput()
		return string(out), err
	}
	if out, err := login(args.User, args.Secret, args.Initiator); err != nil || !strings.Contains(out, fmt.Sprint(diskSize)) {
		t.Errorf("iscsi-readcapacity16: %v: %s", err, out)
	}
	for what, with := range map[string][3]string{"a wrong secret": {args.User, "wrong-wrong-wrong", args.Initiator}, "another name": {"other", args.Secret, args.Initiator}, "another initiator": {args.User, args.Secret, args.Initiator + "x"}} {
		if out, err := login(with[0], with[1], with[2]); err == nil {
			t.Errorf("%s is let in: %s", what, out)
		}
	}
	image := filepath.Join(t.TempDir(), "by-qemu")
	if out, err := exec.CommandContext(m.ctx, "qemu-img", "convert", "-O", "raw", "--image-opts", fmt.Sprintf("driver=iscsi,transport=tcp,portal=127.0.0.1:%d,target=%s,lun=%d,user=%s,password=%s,initiator-name=%s",
		m.Opened, v.IQN, v.LUN, args.User, args.Secret, args.Initiator), image).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v: %s", err, out)
	}
	there, err := os.ReadFile(m.disk)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := os.ReadFile(image); err != nil || !bytes.Equal(there, read) {
		t.Errorf("qemu-img reads another disk than the machine's (%v)", err)
	}
	// A list of steps, as a conductor asks for it, leaves the volume. What has to do with disks ends it.
	m.done(agentapi.CmdGetServiceSteps, agentapi.StepParams{Node: map[string]any{}, Ports: []any{}}, nil)
	if out, err := login(args.User, args.Secret, args.Initiator); err != nil {
		t.Errorf("after a list of steps: %v: %s", err, out)
	}
	m.done(agentapi.CmdSync, struct{}{}, nil)
	if out, err := login(args.User, args.Secret, args.Initiator); err == nil {
		t.Errorf("the volume is still there: %s", out)
	}
}
