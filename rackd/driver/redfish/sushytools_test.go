package redfish

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// sushyToolsEnv is a checkout of sushy-tools, OpenStack's emulator of Redfish, which no Debian 12 has.
const sushyToolsEnv = "IRONYARD_SUSHY_TOOLS"

// sushySystem is the system of its fake driver.
const sushySystem = "27946b59-9e44-4fa7-8e91-f3527a1ef094"

// sushyTools starts the emulator with its fake driver, and returns the node of its system.
func sushyTools(t *testing.T) *node.Document {
	t.Helper()
	at := os.Getenv(sushyToolsEnv)
	if at == "" {
		t.Skip("NOT RUN: set " + sushyToolsEnv + " to a checkout of sushy-tools: make sushy-tools")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf.py")
	text := fmt.Sprintf("SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\nSUSHY_EMULATOR_LISTEN_PORT = %d\nSUSHY_EMULATOR_FAKE_DRIVER = True\nSUSHY_EMULATOR_STATE_DIR = %q\n", port, dir)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "/usr/bin/python3", "-m", "sushy_tools.emulator.main", "--config", conf)
	c.Env = append(os.Environ(), "PYTHONPATH="+at, "PYTHONDONTWRITEBYTECODE=1")
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() { c.Process.Kill(); <-ended })
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	for end := time.Now().Add(30 * time.Second); ; {
		if resp, err := http.Get(url + "/redfish/v1/"); err == nil {
			resp.Body.Close()
			break
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("sushy-tools ended: %v: %s", err, said.String())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatal("sushy-tools does not answer")
		}
	}
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{fieldAddress: url, fieldUser: "admin", fieldPassword: "s3cret-pass", fieldAuth: "basic",
		fieldSystem: "/redfish/v1/Systems/" + sushySystem}}
}

// TestSushyTools drives the machine of another project's emulator: power, boot devices, names and virtual drives. Its fake driver stores no
// URL to boot.
func TestSushyTools(t *testing.T) {
	n := sushyTools(t)
	d, ctx, fence := newDriver(t, Options{}), t.Context(), &drivertest.Fence{}
	// Its machines take a moment to switch, which the driver calls unknown where it does not see it.
	reach := func(target, want driver.PowerState) {
		t.Helper()
		if err := d.SetPower(ctx, fence, n, target); err != nil && !errors.Is(err, driver.ErrUnknown) {
			t.Fatalf("%s: %v", target, err)
		}
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
			got, err := d.PowerState(ctx, n)
			if err == nil && got == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("after %s the power is %q, %v", target, got, err)
			}
		}
	}
	for _, step := range []struct{ target, want driver.PowerState }{{driver.PowerOn, driver.PowerOn}, {driver.Rebooting, driver.PowerOn}, {driver.PowerOff, driver.PowerOff}} {
		reach(step.target, step.want)
	}
	for _, c := range []struct {
		device     driver.BootDevice
		persistent bool
	}{{driver.BootPXE, false}, {driver.BootDisk, true}, {"cdrom", false}} {
		if err := d.SetBootDevice(ctx, fence, n, c.device, c.persistent); err != nil {
			t.Errorf("boot device %s: %v", c.device, err)
			continue
		}
		if got, err := d.BootDevice(ctx, n); err != nil || got.Device != string(c.device) {
			t.Errorf("boot device %s: the emulator shows %+v, %v", c.device, got, err)
		}
	}
	found, err := d.Identity(ctx, n)
	if err != nil || len(found.UUID) == 0 {
		t.Errorf("identity: %+v, %v", found, err)
	}
	if list, err := d.Media(ctx, n); err != nil || len(list) == 0 {
		t.Errorf("virtual drives: %v, %v", list, err)
	}
}
