package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The secrets of a volume, of the machine and of its target, and its name.
const chapSecret, mutualSecret, volumeName = "chap-secret-of-a-volume", "chap-secret-of-its-target", "iqn.2026-11.example:volume-of-the-thieves"

// hexOf is a text as boot scripts have secrets.
func hexOf(text string) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprintf("% x", text), " ", ":"), ":")
}

// spills reports whether a text holds a secret of the volume, as it is or as boot scripts have it.
func spills(text string) bool {
	for _, s := range []string{chapSecret, mutualSecret} {
		if strings.Contains(text, s) || strings.Contains(strings.ToLower(text), hexOf(s)) {
			return true
		}
	}
	return false
}

// fetchTFTP gets a small file by TFTP, as a stranger.
func fetchTFTP(ctx context.Context, t *testing.T, y *yard, server, file string) string {
	t.Helper()
	conn, err := y.hosts["stranger"].ListenPacket("udp4", y.hosts["stranger"].At(0))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.WriteTo(append([]byte{0, 1}, file+"\x00octet\x00"...), &net.UDPAddr{IP: net.ParseIP(server), Port: 69}); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for buf := make([]byte, 2048); ctx.Err() == nil; {
		conn.SetReadDeadline(time.Now().Add(2 * time.Second))
		n, from, err := conn.ReadFrom(buf)
		if err != nil || n < 4 || buf[1] != tftpData {
			return text.String()
		}
		text.Write(buf[4:n])
		if _, err := conn.WriteTo([]byte{0, 4, buf[2], buf[3]}, from); err != nil || n < 516 {
			break
		}
	}
	return text.String()
}

// A node boots from a volume. Its secrets are in its script, which its machine alone is given. A stranger on the network, a stranger at the
// API and all who may read the node ask for them in every way. They lie in no log, and on no server of the bus.
func TestSecretsOfAVolume(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	y.lateRackd(ctx, t, "rackd-d", siteName, groupD)
	m, err := y.startMachine(ctx, "volume", networkOf(6, 0), "rackd-d")
	if err != nil {
		t.Fatal(err)
	}
	e := y.enrolMachine(ctx, t, m, groupD, nil)
	owner := y.owned(ctx, t, e, "tenant-v")
	lessee := y.operator.as(y.token("owners", "tenant-vl"))
	y.available(ctx, t, e)
	for path, value := range map[string]any{"/storage_interface": "external", "/instance_info": map[string]any{}, "/lessee": "tenant-vl"} {
		if err := y.operator.set(ctx, e.id, path, value); err != nil {
			t.Fatal(err)
		}
	}
	var target struct{ UUID string }
	if err := errors.Join(
		y.operator.persist(ctx, "POST", "/v1/volume/connectors", map[string]any{"node_uuid": e.id, "type": "iqn", "connector_id": "iqn.2026-11.example:machine"}, nil),
		y.operator.persist(ctx, "POST", "/v1/volume/targets", map[string]any{"node_uuid": e.id, "volume_type": "iscsi", "volume_id": "v", "boot_index": 0, "properties": map[string]any{
			"target_iqn": volumeName, "target_portal": addresses["operator"] + ":3260", "target_lun": 1, "auth_method": "CHAP", "auth_username": "machine", "auth_password": chapSecret,
			"mutual_auth_username": "target", "mutual_auth_password": mutualSecret}}, &target)); err != nil {
		t.Fatal(err)
	}
	if status, text, err := owner.do(ctx, "PATCH", "/v1/volume/targets/"+target.UUID, []map[string]any{{"op": "add", "path": "/extra/mine", "value": "1"}}); err != nil || status != http.StatusOK {
		t.Fatalf("an owner may not change the target: %d %s %v", status, text, err)
	}
	own := y.fakeNode(ctx, t, "of-the-thieves", groupD)
	if err := errors.Join(y.operator.set(ctx, own.UUID, "/owner", "tenant-v"), y.operator.set(ctx, own.UUID, "/lessee", "tenant-vl")); err != nil {
		t.Fatal(err)
	}
	var moved []string
	for who, c := range map[string]*caller{"owner": owner, "lessee": lessee} {
		for _, op := range []map[string]any{{"op": "replace", "path": "/properties/target_portal", "value": addresses["stranger"] + ":3260"}, {"op": "add", "path": "/properties/target_portals", "value": []string{addresses["stranger"] + ":3260"}},
			{"op": "replace", "path": "/node_uuid", "value": own.UUID}} {
			if status, _, err := c.do(ctx, "PATCH", "/v1/volume/targets/"+target.UUID, []map[string]any{op}); err == nil && status/100 == 2 {
				moved = append(moved, fmt.Sprint(who, " ", op["path"]))
			}
		}
	}
	slices.Sort(moved)
	judge(t, line{21, tenant, "have the machine show its secret to another target", fmt.Sprintf("%q", moved), "none", len(moved) > 0})
	notified, heard := y.notified(ctx, t)
	if err := y.operator.provision(ctx, e.id, "active", nil); err != nil {
		t.Fatal(err)
	}
	if err := y.operator.awaits(ctx, e.id, "active", time.Minute); err != nil {
		t.Fatal(err)
	}
	web := "http://" + addresses["rackd-d"] + ":8080"
	script := "/boot/script?mac=" + url.QueryEscape(e.MAC)
	if err := until(ctx, 20*time.Second, func(ctx context.Context) error { // the machine itself is told
		_, text, err := newCaller(e.host, web).do(ctx, "GET", script, nil)
		if err == nil && !spills(text) {
			err = fmt.Errorf("it is told %q", text)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var told []string
	dashed := strings.ReplaceAll(e.MAC, ":", "-")
	for _, path := range []string{script, script + "&after=volume", "/boot/script?uuid=" + e.id, "/boot/parameters?mac=" + url.QueryEscape(e.MAC), "/boot/program/" + dashed + "/ramdisk.efi",
		"/boot/installer/" + e.id + "/x/ks.cfg", "/boot/own/" + dashed + "/kernel", "/files/..%2f..%2fkernel"} {
		if _, text, err := y.stranger.at(web).do(ctx, "GET", path, nil); err == nil && spills(text) {
			told = append(told, path)
		}
	}
	for _, file := range []string{"boot/script/" + dashed, "/boot/script/" + dashed + "/after-volume", "grub/grub.cfg-01-" + e.MAC, "pxelinux.cfg/01-" + dashed, "boot/own/" + dashed + "/kernel"} {
		if text := fetchTFTP(ctx, t, y, addresses["rackd-d"], file); spills(text) {
			told = append(told, "TFTP "+file)
		}
	}
	if text := fetchTFTP(ctx, t, y, addresses["rackd-d"], "boot/script/"+dashed); !strings.Contains(text, "#!ipxe") {
		t.Errorf("TFTP gives no script at all: %q", text)
	}
	for _, ask := range []string{"/v1/drivers/redfish/vendor_passthru/ipxe_config?port_address=" + url.QueryEscape(e.MAC), "/v1/drivers/redfish/vendor_passthru/ipxe_config?node_uuid=" + e.id,
		"/v1/lookup?addresses=" + url.QueryEscape(e.MAC) + "&node_uuid=" + e.id} {
		if _, text, err := y.stranger.do(ctx, "GET", ask, nil); err == nil && spills(text) {
			told = append(told, ask)
		}
	}
	judge(t, line{21, onTheNetwork, "the secrets of a volume that a node boots from", fmt.Sprintf("%q", told), "nowhere", len(told) > 0})

	var shown []string
	for who, c := range map[string]*caller{"owner": owner, "lessee": lessee, "operator": y.operator, "another": y.operator.as(y.token("owners", "tenant-other"))} {
		for _, path := range []string{"/v1/volume/targets?detail=true", "/v1/volume/targets/" + target.UUID, "/v1/nodes/" + e.id + "/volume/targets?detail=true", "/v1/nodes/" + e.id, "/v1/nodes/detail",
			"/v1/nodes/" + e.id + "/history?detail=true", "/v1/nodes/" + e.id + "/validate", "/v1/nodes/" + e.id + "/states", "/v1/audit?limit=1000", "/v1/nodes/" + e.id + "/inventory", "/v1/ports?detail=true"} {
			if _, text, err := c.do(ctx, "GET", path, nil); err == nil && spills(text) {
				shown = append(shown, who+" "+path)
			}
		}
	}
	slices.Sort(shown)
	judge(t, line{21, tenant, "read the secrets of a volume", fmt.Sprintf("%q", shown), "nowhere", len(shown) > 0})
	stop(notified)
	lines := <-heard
	judge(t, line{21, tenant, "hear the secrets of a volume in notifications", fmt.Sprintf("%t in %d bytes", spills(lines), len(lines)), "false", spills(lines) || !strings.Contains(lines, e.id)})

	// What lies on disks: logs, the bus, the database. Its machine's own script is made at each request.
	var kept []string
	names := 0 // of files that have what is no secret of the volume
	if err := filepath.WalkDir(y.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(path, y.file("bin")) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && spills(string(text)) {
			kept = append(kept, strings.TrimPrefix(path, y.dir))
		}
		if bytes.Contains(text, []byte(volumeName)) {
			names++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	judge(t, line{21, tenant, "the secrets of a volume in files of all programs", fmt.Sprintf("%q; its name in %d files", kept, names), "none", len(kept) > 0 || names == 0})

	if err := y.operator.provision(ctx, e.id, "deleted", nil); err != nil {
		t.Fatal(err)
	}
	if err := y.operator.awaits(ctx, e.id, "available", time.Minute); err != nil {
		t.Fatal(err)
	}
	_, text, err := newCaller(e.host, web).do(ctx, "GET", script, nil)
	judge(t, line{21, onTheNetwork, "the machine asks for the secrets of a volume after its instance", fmt.Sprintf("told %t, %v", spills(text), err), "false", spills(text) || err != nil})
}

func stop(cancel context.CancelFunc) { cancel() }

// notified follows the API's notifications until it is stopped, and then gives what came.
func (y *yard) notified(ctx context.Context, t *testing.T) (context.CancelFunc, <-chan string) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", y.api()+"/v1/notifications", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", y.operator.bearer)
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.95")
	web := *y.operator.web
	web.Timeout = 0
	began, heard := make(chan error, 1), make(chan string, 1)
	go func() {
		resp, err := web.Do(req)
		if err != nil {
			began <- err
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			began <- errors.New(resp.Status)
			return
		}
		began <- nil
		var all bytes.Buffer
		_, _ = all.ReadFrom(resp.Body) // until it is stopped
		heard <- all.String()
	}()
	if err := <-began; err != nil {
		t.Fatalf("follow the notifications: %v", err)
	}
	return cancel, heard
}
