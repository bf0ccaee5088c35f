package scenario

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// Of a volume and the machine that it is for.
const (
	volumeIQN    = "iqn.2026-11.org.example:volume"
	initiatorIQN = "iqn.2026-11.org.example:machine"
	volumeUser   = "machine"
	volumeSecret = "twelve&more${x}"
	targetUser   = "volume"
	targetSecret = "its-own-secret"
	wrongSecret  = "a wrong secret"
)

// volumeDisk is a copy of the test image, for a target to serve.
func volumeDisk(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "volume")
	if out, err := exec.Command("cp", "--sparse=always", images.Raw.Path, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// san serves a copy of the test image until the test ends.
func san(t *testing.T, user string) {
	t.Helper()
	serveVolume(t, volumeDisk(t), user, theRack.Address().String()+":3260")
}

// serveVolume serves a disk by tgtd, a foreign iSCSI target, in the rack's network. With a user it wants to know the secret. kill ends it
// in the middle of whatever it does.
func serveVolume(t *testing.T, disk, user, portal string) (kill func()) {
	t.Helper()
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	control := fmt.Sprint(os.Getpid() % 32000) // names tgtd's control socket
	tgtd := ns.Command(context.Background(), "tgtd", "-f", "-C", control, "--iscsi", "portal="+portal)
	if err := tgtd.Start(); err != nil {
		t.Fatalf("%v (Debian's package tgt)", err)
	}
	kill = sync.OnceFunc(func() {
		_ = tgtd.Process.Kill()
		_ = tgtd.Wait()
		for _, suffix := range []string{"", ".lock"} {
			_ = os.Remove("/var/run/tgtd/socket." + control + suffix)
		}
	})
	t.Cleanup(kill)
	orders := [][]string{
		{"--op", "new", "--mode", "target", "--tid", "1", "-T", volumeIQN},
		{"--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", disk},
		{"--op", "bind", "--mode", "target", "--tid", "1", "-Q", initiatorIQN},
	}
	if user != "" {
		orders = append(orders, []string{"--op", "new", "--mode", "account", "--user", user, "--password", volumeSecret},
			[]string{"--op", "bind", "--mode", "account", "--tid", "1", "--user", user})
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
	return kill
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
	req.Header.Set("X-OpenStack-Ironic-API-Version", "latest")
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
		if strings.Contains(h.Event, volumeSecret) || strings.Contains(h.Event, targetSecret) || strings.Contains(h.Event, "not cleaned up") {
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
			san(t, volumeUser)
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
			booted(ctx, t, console, volumeIQN, theRack.Address().String()+":3260", "")
			undeployed(ctx, t, id)
		})
	}
}

// A machine without any disk boots a volume of a foreign target. Its firmware logs in there, as its BMC was told, and forgets it with
// the undeploy. tgtd and this firmware have no way of CHAP in common: TestDeployFromVolumeByFirmware has it.
func TestVolumeWithoutADisk(t *testing.T) {
	const name = "bare-0"
	ctx := limit(t, 8*time.Minute)
	san(t, "")
	id := enrolled(ctx, t, name, byMedium("redfish-virtual-media"))
	attached(ctx, t, id, nil)
	if err := theRack.Operator.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	startedOnce(ctx, t, id, name)
	fromVolume(ctx, t, id, name)
	if volume, _ := firmwareBoots(ctx, t, name); volume != volumeIQN {
		t.Errorf("its firmware logs in to %q", volume)
	}
	undeployed(ctx, t, id)
	if volume, _ := firmwareBoots(ctx, t, name); volume != "" {
		t.Errorf("after the undeploy its firmware logs in to %q", volume)
	}
}

// A BIOS machine without any disk boots a volume of a foreign target, to which iPXE logs in by CHAP. Its system finds the volume in the
// firmware's table, and no disk. TestVolumeWithoutADisk has that of UEFI, by its firmware.
func TestVolumeWithoutADiskByIPXE(t *testing.T) {
	const name = "bare-1"
	ctx := limit(t, 8*time.Minute)
	san(t, volumeUser)
	id := enrolled(ctx, t, name, nil)
	attached(ctx, t, id, map[string]any{"auth_method": "CHAP", "auth_username": volumeUser, "auth_password": volumeSecret})
	if err := theRack.Operator.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	console := consoleFromNow(t, name)
	fromVolume(ctx, t, id, name)
	line, err := console.Wait(ctx, marker)
	if err != nil || !withoutADisk.MatchString(line) {
		t.Errorf("a machine without a disk says %q: %v", line, err)
	}
	booted(ctx, t, console, volumeIQN, theRack.Address().String()+":3260", "")
	undeployed(ctx, t, id)
	if err := theRack.Operator.WaitPower(ctx, id, "power off"); err != nil {
		t.Error(err)
	}
}

// withoutADisk is the marker of a system whose root is on no disk of its machine.
var withoutADisk = regexp.MustCompile(` root=\s*$`)

// startedOnce has a machine's firmware run until it looks for a system: at its first start OVMF makes room for its targets.
func startedOnce(ctx context.Context, t *testing.T, id, name string) {
	t.Helper()
	console := consoleFromNow(t, name)
	switched(ctx, t, id, "power on")
	if _, err := console.Wait(ctx, regexp.MustCompile(`BdsDxe: `)); err != nil {
		t.Fatal(err)
	}
	switched(ctx, t, id, "power off")
}

// firmwareBoots is what a machine's virtual BMC tells of its firmware: the volume that it logs in to at its next start, and what it boots.
func firmwareBoots(ctx context.Context, t *testing.T, name string) (volume, device string) {
	t.Helper()
	m, err := theRack.Enrolment(name)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DialContext: ns.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	read := func(path string, into any) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprint(m.DriverInfo["redfish_address"], path), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(fmt.Sprint(m.DriverInfo["redfish_username"]), fmt.Sprint(m.DriverInfo["redfish_password"]))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %s, %v", path, resp.Status, err)
		}
	}
	var systems struct {
		Members []struct {
			ID string `json:"@odata.id"`
		}
	}
	read("/redfish/v1/Systems", &systems)
	var system struct {
		Boot struct{ BootSourceOverrideTarget, BootSourceOverrideEnabled string }
	}
	read(systems.Members[0].ID, &system)
	var card struct {
		BootMode  string
		ISCSIBoot struct{ PrimaryTargetName string } `json:"iSCSIBoot"`
	}
	read("/redfish/v1/Chassis/1/NetworkAdapters/1/NetworkDeviceFunctions/1/Settings", &card)
	if card.BootMode == "iSCSI" {
		volume = card.ISCSIBoot.PrimaryTargetName
	}
	return volume, system.Boot.BootSourceOverrideTarget + " " + system.Boot.BootSourceOverrideEnabled
}

// No target answers the firmware, and its operator gives up. The machine is off then, and its firmware attaches no volume: the next
// deploy finds the machine as any other.
func TestAbortedDeployFromVolumeByFirmware(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("it takes minutes: make hardware runs it")
	}
	const name = "http-0"
	ctx := limit(t, 12*time.Minute)
	o := theRack.Operator
	id := enrolled(ctx, t, name, byMedium("redfish-virtual-media"))
	attached(ctx, t, id, map[string]any{"auth_method": "CHAP", "auth_username": volumeUser, "auth_password": volumeSecret})
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := o.Ask(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.DeployWait); err != nil {
		t.Fatal(err)
	}
	if volume, _ := firmwareBoots(ctx, t, name); volume != volumeIQN {
		t.Fatalf("in deploy wait its firmware logs in to %q", volume)
	}
	call(ctx, t, "PUT", "nodes/"+id+"/states/provision", map[string]any{"target": "abort"})
	if _, err := o.Wait(ctx, id, provision.DeployFail); err != nil {
		t.Fatal(err)
	}
	if err := o.WaitFree(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := o.WaitPower(ctx, id, "power off"); err != nil {
		t.Fatal(err)
	}
	if volume, device := firmwareBoots(ctx, t, name); volume != "" || device != "Hdd Continuous" {
		t.Errorf("aborted, and its firmware logs in to %q and boots %q", volume, device)
	}
	undeployed(ctx, t, id)
}

// What an exported volume's step says in the history: its portal and its target's name.
var exportedAt = regexp.MustCompile(`target_portal (\S+), target_iqn (\S+), target_lun 1`)

// exported has a machine deploy the test image to its disk, and export the disk as a volume by the kernel's target, with CHAP. With mutual
// the target shows who it is, too. The node holds until released.
func exported(ctx context.Context, t *testing.T, name string, mutual bool) (store, portal, iqn string) {
	t.Helper()
	o := theRack.Operator
	store = enrolled(ctx, t, name, nil)
	if err := o.MakeAvailable(ctx, store); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(ctx, store, qcow2()); err != nil {
		t.Fatal(err)
	}
	deployed(ctx, t, store, name)
	args := map[string]any{"initiator": initiatorIQN, "auth_username": volumeUser, "auth_password": volumeSecret, "disk": map[string]any{"name": "/dev/vda"}}
	if mutual {
		args["mutual_auth_username"], args["mutual_auth_password"] = targetUser, targetSecret
	}
	if err := o.Provision(ctx, store, map[string]any{"target": "service", "service_steps": []any{
		map[string]any{"interface": "deploy", "step": "export_volume", "args": args},
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
	for _, h := range history {
		if m := exportedAt.FindStringSubmatch(h.Event); m != nil {
			portal, iqn = m[1], m[2]
			t.Log(h.Event)
		}
		if strings.Contains(h.Event, volumeSecret) || strings.Contains(h.Event, targetSecret) {
			t.Errorf("the history says %s", h.Event)
		}
	}
	if portal == "" {
		t.Fatalf("the history does not say where the volume is: %v", history)
	}
	return store, portal, iqn
}

// released ends a hold of exported: the machine runs its disk again.
func released(ctx context.Context, t *testing.T, store, name string) {
	t.Helper()
	console := consoleFromNow(t, name)
	if err := theRack.Operator.Ask(ctx, store, "unhold", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := theRack.Operator.Wait(ctx, store, provision.Active); err != nil {
		t.Fatal(err)
	}
	if _, err := console.Wait(ctx, marker); err != nil {
		t.Fatalf("the disk's own machine does not run it any more: %v", err)
	}
	undeployed(ctx, t, store)
}

// The firmware's own initiator boots the volume of a machine without any disk, as its BMC has set it. With a wrong secret the deploy
// fails, shortly after the firmware looks for another system, and says what to look at. The right one counts with the next deploy, which
// has mutual CHAP and two ways of which the first is dead.
// The target is Linux's: this firmware proves itself by SHA-256, and tgtd 1.0.85 reads that number of the algorithm as SHA-1.
func TestDeployFromVolumeByFirmware(t *testing.T) {
	needsTime(t)
	const name = "bare-0"
	ctx := limit(t, 25*time.Minute)
	o := theRack.Operator
	store, portal, iqn := exported(ctx, t, "bios-0", true)
	id := enrolled(ctx, t, name, byMedium("redfish-virtual-media"))
	good, err := netip.ParseAddrPort(portal)
	if err != nil {
		t.Fatal(err)
	}
	dead := netip.AddrPortFrom(good.Addr(), 1) // nothing listens there
	properties := map[string]any{"target_portal": portal, "target_iqn": iqn, "auth_method": "CHAP", "auth_username": volumeUser, "auth_password": wrongSecret}
	target := attached(ctx, t, id, properties)
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	startedOnce(ctx, t, id, name)
	shutOut(ctx, t, id, portal, iqn)
	properties["target_portals"] = []any{dead.String(), portal}
	properties["auth_password"], properties["target_lun"] = volumeSecret, 1
	properties["mutual_auth_username"], properties["mutual_auth_password"] = targetUser, targetSecret
	call(ctx, t, "PATCH", "volume/targets/"+target, []map[string]any{{"op": "replace", "path": "/properties", "value": properties}})
	console := consoleFromNow(t, name)
	fromVolume(ctx, t, id, name)
	line, err := console.Wait(ctx, marker)
	if err != nil || !withoutADisk.MatchString(line) {
		t.Errorf("a machine without a disk says %q: %v", line, err)
	}
	booted(ctx, t, console, iqn, portal, targetUser)
	undeployed(ctx, t, id)
	released(ctx, t, store, "bios-0")
}

// shutOut deploys a node from a volume whose target its firmware does not get into, for it has wrongSecret. The deploy fails and says what
// to look at. The machine is left off, for a volume changes while its machine is.
func shutOut(ctx context.Context, t *testing.T, id, portal, iqn string) {
	t.Helper()
	o, began := theRack.Operator, time.Now()
	if err := o.Ask(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	n, err := o.Wait(ctx, id, provision.DeployFail)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("a wrong secret ends the deploy after %.0f s: %s", took.Seconds(), n.LastError)
	for _, word := range []string{"the firmware did not log in to the iSCSI target", "its BMC says that it looks for a system", portal, iqn, initiatorIQN, "auth_password"} {
		if !strings.Contains(n.LastError, word) || strings.Contains(n.LastError, wrongSecret) || strings.Contains(n.LastError, "The BMC says of the settings") {
			t.Errorf("the error lacks %q, or tells the secret, or the firmware was not given the target", word)
		}
	}
	switched(ctx, t, id, "power off")
}

// switched switches a machine, and waits until it is so.
func switched(ctx context.Context, t *testing.T, id, to string) {
	t.Helper()
	if err := theRack.Operator.Power(ctx, id, to); err != nil {
		t.Fatal(err)
	}
	if err := theRack.Operator.WaitPower(ctx, id, to); err != nil {
		t.Fatal(err)
	}
}

// booted looks that the system, whose marker was read, has found its volume in the iSCSI Boot Firmware Table.
func booted(ctx context.Context, t *testing.T, console *machine.SerialLog, iqn, portal, reverse string) {
	t.Helper()
	line, err := console.Wait(ctx, regexp.MustCompile(`IRONYARD-INSTANCE-(IBFT|ALIVE).*`))
	if want := "target0=" + iqn + "," + portal + ","; err != nil || !strings.Contains(line, want) || !strings.Contains(line, "chap="+volumeUser+",") || !strings.Contains(line, "initiator="+initiatorIQN) || reverse != "" && !strings.Contains(line, "reverse="+reverse) {
		t.Errorf("the system finds %q, %v; want %s", line, err, want)
	}
	t.Log(line)
}

// A machine without an image of its own boots from the disk of another, on which that one's deploy has put a system: a service of the
// other exports it, and holds. With the end of the service the volume is gone, and the other runs from its disk again.
func TestVolumeOnAnotherMachinesDisk(t *testing.T) {
	needsTime(t)
	ctx := limit(t, 20*time.Minute)
	o := theRack.Operator
	store, portal, iqn := exported(ctx, t, "bios-0", false)
	id := enrolled(ctx, t, "uefi-0", nil)
	attached(ctx, t, id, map[string]any{"target_portal": portal, "target_iqn": iqn, "auth_method": "CHAP", "auth_username": volumeUser, "auth_password": volumeSecret})
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	fromVolume(ctx, t, id, "uefi-0")
	undeployed(ctx, t, id)
	released(ctx, t, store, "bios-0")
}

// historySays waits for a line of a node's history, and returns it.
func historySays(ctx context.Context, t *testing.T, id, phase string) (detail string) {
	t.Helper()
	events.wait(ctx, t, "line of "+phase, func(e work.Event) bool {
		for _, l := range e.Lines() {
			if e.Node == id && l.Phase == phase {
				detail = l.Detail
				return true
			}
		}
		return false
	})
	return detail
}
