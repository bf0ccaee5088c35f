package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
)

// Of a volume and the machine that it is for.
const (
	volumeIQN    = "iqn.2026-11.org.example:volume"
	initiatorIQN = "iqn.2026-11.org.example:machine"
	volumeUser   = "machine"
	volumeSecret = "twelve&more${x}"
)

// san serves a copy of the test image by tgtd, a foreign iSCSI target, in the rack's network. With chap it wants to know the secret.
func san(t *testing.T, chap bool) {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "volume")
	if out, err := exec.Command("cp", "--sparse=always", images.Raw.Path, disk).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	control := fmt.Sprint(os.Getpid() % 32000) // names tgtd's control socket
	tgtd := ns.Command(context.Background(), "tgtd", "-f", "-C", control, "--iscsi", "portal="+theRack.Address().String()+":3260")
	if err := tgtd.Start(); err != nil {
		t.Fatalf("%v (Debian's package tgt)", err)
	}
	t.Cleanup(func() {
		_ = tgtd.Process.Kill()
		_ = tgtd.Wait()
		for _, suffix := range []string{"", ".lock"} {
			_ = os.Remove("/var/run/tgtd/socket." + control + suffix)
		}
	})
	orders := [][]string{
		{"--op", "new", "--mode", "target", "--tid", "1", "-T", volumeIQN},
		{"--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", disk},
		{"--op", "bind", "--mode", "target", "--tid", "1", "-Q", initiatorIQN},
	}
	if chap {
		orders = append(orders, []string{"--op", "new", "--mode", "account", "--user", volumeUser, "--password", volumeSecret},
			[]string{"--op", "bind", "--mode", "account", "--tid", "1", "--user", volumeUser})
	}
	for _, args := range orders {
		var out []byte
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if out, err = exec.Command("tgtadm", append([]string{"-C", control, "--lld", "iscsi"}, args...)...).CombinedOutput(); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("tgtadm %s: %v: %s", args, err, out)
		}
	}
}

// call sends a request to the API and returns the answer's body.
func call(ctx context.Context, t *testing.T, method, path string, body any) string {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, method, theRack.Operator.Base()+"/v1/"+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.89")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s, %v: %s", method, path, resp.Status, err, answer)
	}
	return string(answer)
}

// attached gives a node a connector and a volume to boot from, and returns the target's UUID.
func attached(ctx context.Context, t *testing.T, id string, more map[string]any) string {
	t.Helper()
	if err := theRack.Operator.Set(ctx, id, "/storage_interface", "external"); err != nil {
		t.Fatal(err)
	}
	call(ctx, t, "POST", "volume/connectors", map[string]any{"node_uuid": id, "type": "iqn", "connector_id": initiatorIQN})
	properties := map[string]any{"target_iqn": volumeIQN, "target_portal": theRack.Address().String() + ":3260", "target_lun": 1}
	for name, v := range more {
		properties[name] = v
	}
	var made struct{ UUID string }
	answer := call(ctx, t, "POST", "volume/targets", map[string]any{"node_uuid": id, "volume_type": "iscsi", "volume_id": "v", "boot_index": 0, "properties": properties})
	if err := json.Unmarshal([]byte(answer), &made); err != nil {
		t.Fatal(err)
	}
	return made.UUID
}

// fromVolume deploys a node that boots from a volume, and returns once the machine runs the volume's system.
func fromVolume(ctx context.Context, t *testing.T, id, name string) {
	t.Helper()
	console := consoleFromNow(t, name)
	began := time.Now()
	if err := theRack.Operator.Ask(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := theRack.Operator.Wait(ctx, id, provision.Active); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is active after %.0f s", name, time.Since(began).Seconds())
	if _, err := console.Wait(ctx, marker); err != nil {
		t.Fatalf("the volume's system does not run: %v", err)
	}
	t.Logf("%s runs its volume after %.0f s", name, time.Since(began).Seconds())
}

func undeployed(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	if err := theRack.Operator.Ask(ctx, id, "deleted", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := theRack.Operator.Wait(ctx, id, provision.Available); err != nil {
		t.Fatal(err)
	}
	history, err := theRack.Operator.History(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range history {
		if strings.Contains(h.Event, volumeSecret) || strings.Contains(h.Event, "not cleaned up") {
			t.Errorf("the history says %s", h.Event)
		}
	}
}

// A node is deployed from a volume of a foreign target by the API: iPXE boots it, in both firmwares, without a ramdisk. A wrong secret
// is said on the console; when it is right, the node boots at its next start.
func TestDeployFromVolume(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("it takes minutes: make hardware runs it")
	}
	for _, name := range []string{"bios-0", "uefi-0"} {
		t.Run(name, func(t *testing.T) {
			ctx := limit(t, 8*time.Minute)
			o := theRack.Operator
			san(t, true)
			id := enrolled(ctx, t, name, nil)
			target := attached(ctx, t, id, map[string]any{"auth_method": "CHAP", "auth_username": volumeUser, "auth_password": "wrong"})
			if err := o.MakeAvailable(ctx, id); err != nil {
				t.Fatal(err)
			}
			console := consoleFromNow(t, name)
			if err := o.Ask(ctx, id, "active", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Wait(ctx, id, provision.Active); err != nil {
				t.Fatal(err)
			}
			if _, err := console.Wait(ctx, regexp.MustCompile(`Could not open SAN device: Operation not permitted`)); err != nil {
				t.Fatalf("a wrong secret: %v", err)
			}
			if err := o.Power(ctx, id, "power off"); err != nil {
				t.Fatal(err)
			}
			if err := o.WaitPower(ctx, id, "power off"); err != nil {
				t.Fatal(err)
			}
			shown := call(ctx, t, "PATCH", "volume/targets/"+target, []map[string]any{{"op": "replace", "path": "/properties/auth_password", "value": volumeSecret}})
			if strings.Contains(shown, volumeSecret) {
				t.Errorf("the API shows the secret: %s", shown)
			}
			console = consoleFromNow(t, name)
			if err := o.Power(ctx, id, "power on"); err != nil {
				t.Fatal(err)
			}
			if _, err := console.Wait(ctx, marker); err != nil {
				t.Fatalf("the volume's system does not run: %v", err)
			}
			undeployed(ctx, t, id)
		})
	}
}

// The firmware's own initiator boots the volume, as the virtual BMC has set it. tgtd 1.0.85 has no room for the proof that this
// firmware gives, so the target asks for none.
func TestDeployFromVolumeByFirmware(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("it takes minutes: make hardware runs it")
	}
	const name = "http-0"
	ctx := limit(t, 12*time.Minute)
	san(t, false)
	id := enrolled(ctx, t, name, byMedium("redfish-virtual-media"))
	attached(ctx, t, id, nil)
	if err := theRack.Operator.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	fromVolume(ctx, t, id, name)
	undeployed(ctx, t, id)
}

var exportedAt = regexp.MustCompile(`target_portal (\S+), target_iqn (\S+), target_lun 1`)

// A machine without an image of its own boots from the disk of another, on which that one's deploy has put a system: a service of the
// other exports it, and holds. With the end of the service the volume is gone, and the other runs from its disk again.
func TestVolumeOnAnotherMachinesDisk(t *testing.T) {
	needsTime(t)
	ctx := limit(t, 20*time.Minute)
	o := theRack.Operator
	store := enrolled(ctx, t, "bios-0", nil)
	if err := o.MakeAvailable(ctx, store); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(ctx, store, qcow2()); err != nil {
		t.Fatal(err)
	}
	deployed(ctx, t, store, "bios-0")
	if err := o.Provision(ctx, store, map[string]any{"target": "service", "service_steps": []any{
		map[string]any{"interface": "deploy", "step": "export_volume", "args": map[string]any{"initiator": initiatorIQN, "auth_username": volumeUser, "auth_password": volumeSecret, "disk": map[string]any{"name": "/dev/vda"}}},
		map[string]any{"interface": "deploy", "step": "hold"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, store, provision.ServiceHold); err != nil {
		t.Fatal(err)
	}
	history, err := o.History(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	var at []string
	for _, h := range history {
		if m := exportedAt.FindStringSubmatch(h.Event); m != nil {
			at = m
			t.Log(h.Event)
		}
		if strings.Contains(h.Event, volumeSecret) {
			t.Errorf("the history says %s", h.Event)
		}
	}
	if at == nil {
		t.Fatalf("the history does not say where the volume is: %v", history)
	}
	id := enrolled(ctx, t, "uefi-0", nil)
	attached(ctx, t, id, map[string]any{"target_portal": at[1], "target_iqn": at[2], "auth_method": "CHAP", "auth_username": volumeUser, "auth_password": volumeSecret})
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	fromVolume(ctx, t, id, "uefi-0")
	undeployed(ctx, t, id)
	console := consoleFromNow(t, "bios-0")
	if err := o.Ask(ctx, store, "unhold", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, store, provision.Active); err != nil {
		t.Fatal(err)
	}
	if _, err := console.Wait(ctx, marker); err != nil {
		t.Fatalf("the disk's own machine does not run it any more: %v", err)
	}
	undeployed(ctx, t, store)
}
