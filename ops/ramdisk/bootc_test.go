package ramdisk_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/agent/container/containertest"
	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/agentvm"
	"github.com/ironyard/ironyard/ops/virtual/partitionimage"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// A container installs itself in the ramdisk's podman, from a registry that asks for an account, and the machine boots from its disk. A
// script stands in bootc's place.
func TestContainers(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("installs systems in QEMU, which takes minutes: make hardware runs it")
	}
	layer, err := partitionimage.Container(t.Context(), agentvm.KernelCache())
	if err != nil {
		t.Fatal(err)
	}
	r := containertest.New(t)
	if err := r.Push(t.Context(), "os", "1", layer); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	r.Serve(t, fmt.Sprintf("127.0.0.1:%d", port), "tenant:0pen-sesame", exec.CommandContext)
	host := fmt.Sprintf("10.0.2.2:%d", port) // as machines see it
	settings := filepath.Join(t.TempDir(), "registries.conf.d")
	if err := os.Mkdir(settings, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(settings, "test.conf"), fmt.Appendf(nil, "[[registry]]\nlocation = %q\ninsecure = true\n", host), 0o644); err != nil {
		t.Fatal(err)
	}
	built, err := ramdisk.Build(t.Context(), ramdisk.Options{KernelPackage: debkernel.Cloud, OutDir: t.TempDir(), CacheDir: agentvm.KernelCache(), Podman: &ramdisk.Podman{Config: filepath.Dir(settings)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the ramdisk with podman has %.1f MB, and %.1f MB of podman unpacked", float64(built.InitramfsBytes)/1e6, float64(built.PodmanBytes)/1e6)
	for _, mode := range []string{"bios", "uefi"} {
		t.Run(mode, func(t *testing.T) {
			m := &installed{mode: mode, disk: filepath.Join(t.TempDir(), "disk")}
			if err := os.WriteFile(m.disk, make([]byte, 1<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(m.disk, 2<<30); err != nil {
				t.Fatal(err)
			}
			if mode == "uefi" {
				m.vars = filepath.Join(t.TempDir(), "vars")
			}
			m.contain(t, built, "oci://"+host+"/os:1")
			m.judge(t)
			said := m.boot(t, m.vars)
			for _, want := range []string{"firmware " + mode, "root /dev/vda3 ext4", "label config-2 /dev/vda4", `drive {"hostname":"part"}`, "keys ssh-ed25519 AAAA tenant"} {
				if !strings.Contains(said, want) {
					t.Errorf("the instance does not say %q:\n%s", want, said)
				}
			}
		})
	}
}

// contain boots the ramdisk and has a container install itself.
func (m *installed) contain(t *testing.T, built ramdisk.Result, source string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	vm := agentvm.Boot(ctx, t, built, agentvm.Hardware{Mode: m.mode, NIC: "virtio-net-pci", Vars: m.vars, MemoryMiB: 1024, Drives: []string{
		"-drive", "if=none,id=d,format=raw,cache=unsafe,discard=unmap,file=" + m.disk, "-device", "virtio-blk-pci,drive=d,serial=DISK1"}}, nil)
	secret := base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte("tenant:0pen-sesame"))))
	order := agentapi.StepParams{Ports: []any{}, Step: map[string]any{"interface": "deploy", "step": agentapi.StepBootc,
		"args": agentapi.BootcArgs{Source: source, ConfigDrive: gzip64(driveOf(t)), PullSecret: secret}},
		Node: map[string]any{"properties": map[string]any{"root_device": map[string]any{"serial": "DISK1"}}, "instance_info": map[string]any{"bootc_authorized_keys": "ssh-ed25519 AAAA tenant"}}}
	began := time.Now()
	c := vm.Run(ctx, agentapi.CmdExecDeployStep, order)
	if c.Status != agentapi.CommandSucceeded {
		t.Fatalf("%+v", c.Error)
	}
	var answer json.RawMessage = c.Result
	t.Logf("%s: installed in %.1f s: %s", m.mode, time.Since(began).Seconds(), answer)
	if said := vm.Console(t) + string(answer) + vm.Door.Logs(); strings.Contains(said, "0pen-sesame") || strings.Contains(said, secret) {
		t.Error("the secret is in the answer, the log or at the console")
	}
	if c := vm.Post(ctx, agentapi.CmdRunImage, "go", nil); c.Error != nil {
		t.Fatalf("run_image: %+v", c.Error)
	}
	select {
	case <-vm.Ended:
	case <-ctx.Done():
		t.Fatal("the machine does not reboot")
	}
}
