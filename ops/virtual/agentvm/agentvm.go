// Package agentvm boots the agent's ramdisk in a virtual machine and speaks to the agent as rackd
// does. So tests see what the agent does on a real kernel with its drivers.
//
// It owns the QEMU process, the door that the agent calls, and programs that a test puts beside the agent; it may import ops/ramdisk,
// ops/initramfs and protocol/agentapi. Invariants: QEMU ends with the test, and the machine reaches no network but the
// door on this host's loopback.
package agentvm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/machine/qmp"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// MAC is the address of the machine's card.
const MAC = "52:54:00:12:34:56"

// Hardware is how the machine boots, and what it consists of.
type Hardware struct {
	Mode   string   // bios or uefi
	NIC    string   // QEMU's name of the network card
	Drives []string // QEMU's arguments for what holds data
	Opens  int      // a further port of the machine that VM.Opened leads to; 0: none
	// Processors of the machine, 0: one, and its memory in MiB, 0: 512.
	Processors, MemoryMiB int
	// Model is QEMU's name of the processors. Empty: max.
	Model string
	// Programs of this host are in the ramdisk beside the agent, with their libraries, for Shell. Paths of other files go there as they
	// are. None: the ramdisk is as it was built.
	Programs []string
	// Vars is the file with the UEFI firmware's variables, which is made if it is not there. Empty: the machine's own, forgotten at its end.
	Vars string
	// Parameters has the agent find its parameters elsewhere than on the kernel's command line: it is given them, and returns QEMU's
	// arguments, and the words for the command line. nil: they are there.
	Parameters func(words []string) (args []string, line string)
}

// VM is a machine with the agent in it.
type VM struct {
	*Door
	*Agent
	// First is the agent's first heartbeat, Ended is closed when QEMU has ended.
	First agentapi.Heartbeat
	Ended <-chan struct{}
	Began time.Time
	Port  int // of the agent, on this host
	// Opened is the port of this host that leads to Hardware.Opens.
	Opened int
	Files  string // the URL of the door's files, as the machine sees it

	process int // of QEMU
	qmp     string
	console string // file
	shell   shell
}

// Console is what the machine has printed on its serial console so far.
func (vm *VM) Console(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(vm.console)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// KernelCache is the folder that keeps kernel packages, as the Makefile names it.
func KernelCache() string {
	dir := os.Getenv("IRONYARD_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			user = os.TempDir()
		}
		dir = filepath.Join(user, "ironyard")
	}
	return filepath.Join(dir, "kernel")
}

// Build builds the ramdisk with a kernel (ops/debkernel).
func Build(t testing.TB, kernel string) ramdisk.Result {
	t.Helper()
	built, err := ramdisk.Build(t.Context(), ramdisk.Options{KernelPackage: kernel, OutDir: t.TempDir(), CacheDir: KernelCache()})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// Boot starts the machine and waits for the agent's first heartbeat. files are what the door serves.
func Boot(ctx context.Context, t testing.TB, built ramdisk.Result, h Hardware, files map[string][]byte) *VM {
	t.Helper()
	door := &Door{t: t, files: files, news: make(chan struct{})}
	server := httptest.NewTLSServer(door)
	t.Cleanup(server.Close)
	port := server.Listener.Addr().(*net.TCPAddr).Port
	pin := sha256.Sum256(server.Certificate().Raw)
	// Without no_timer_check a kernel on a slow emulated processor takes its timer for broken.
	line := fmt.Sprintf("console=ttyS0 loglevel=5 panic=10 no_timer_check %s=https://10.0.2.2:%d %s=%x BOOTIF=01-%s", agentapi.ParamAPIURL, port, agentapi.ParamAPIFingerprint, pin, strings.ReplaceAll(MAC, ":", "-"))
	vm := &VM{Door: door, Began: time.Now(), Port: freePort(t), Files: fmt.Sprintf("https://10.0.2.2:%d/", port)}
	if h.Parameters != nil {
		all := strings.Fields(line)
		args, own := h.Parameters(all[4:])
		h.Drives, line = append(slices.Clone(h.Drives), args...), strings.Join(append(all[:4:4], own), " ")
	}
	vm.start(t, built, h, line)
	vm.First = door.Await(ctx, "anything", func(agentapi.Heartbeat) bool { return true })
	vm.Agent = newAgent(t, door, vm.First, vm.Port)
	return vm
}

func (vm *VM) start(t testing.TB, built ramdisk.Result, h Hardware, line string) {
	t.Helper()
	vm.console = filepath.Join(t.TempDir(), "serial")
	folder, err := os.MkdirTemp("", "qmp") // a socket's name must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	vm.qmp = filepath.Join(folder, "s")
	var beside []string // QEMU's arguments
	if len(h.Programs) > 0 {
		vm.shell.at = filepath.Join(folder, "shell")
		built.Initramfs = withPrograms(t, built.Initramfs, h.Programs)
		line += " rdinit=/" + shellInit
		beside = []string{"-chardev", "socket,id=shell,path=" + vm.shell.at + ",server=on,wait=off", "-serial", "chardev:shell"}
	}
	args := []string{"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-accel", "tcg,thread=multi", "-M", "q35", "-cpu", cmp.Or(h.Model, "max"), "-smp", fmt.Sprint(max(h.Processors, 1)), "-m", fmt.Sprint(cmp.Or(h.MemoryMiB, 512)),
		"-kernel", built.Kernel, "-initrd", built.Initramfs, "-append", line, "-serial", "file:" + vm.console, "-qmp", "unix:" + vm.qmp + ",server=on,wait=off",
		"-netdev", fmt.Sprintf("user,id=n,hostfwd=tcp:127.0.0.1:%d-10.0.2.15:9999", vm.Port), "-device", h.NIC + ",netdev=n,romfile=,mac=" + MAC}
	args = append(args, beside...)
	if args = append(args, h.Drives...); h.Mode == "uefi" {
		vars, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd")
		if err != nil {
			t.Fatalf("firmware (Debian package ovmf): %v", err)
		}
		mine := h.Vars
		if mine == "" {
			mine = filepath.Join(t.TempDir(), "vars")
		}
		if _, err := os.Stat(mine); err != nil {
			if err := os.WriteFile(mine, vars, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		args = append(args, "-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd", "-drive", "if=pflash,unit=1,format=raw,file="+mine)
	}
	if h.Opens != 0 {
		vm.Opened = freePort(t)
		for i, a := range args {
			if strings.HasPrefix(a, "user,id=n,") {
				args[i] += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-10.0.2.15:%d", vm.Opened, h.Opens)
			}
		}
	}
	cmd := exec.Command("qemu-system-x86_64", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		t.Fatalf("qemu (Debian package qemu-system-x86): %v", err)
	}
	vm.process = cmd.Process.Pid
	ended := make(chan struct{})
	vm.Ended = ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed at the end of a failed test
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		console, _ := os.ReadFile(vm.console)
		if t.Failed() || testing.Verbose() {
			t.Logf("qemu: %s\nconsole:\n%s", complaint.String(), console)
		}
	})
}

// Add puts devices into the running machine, one after the other: QEMU's arguments of device_add.
func (vm *VM) Add(ctx context.Context, t testing.TB, devices ...map[string]any) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", vm.qmp)
	if err != nil {
		t.Fatal(err)
	}
	c, err := qmp.New(ctx, conn, func(qmp.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, d := range devices {
		if err := c.Execute(ctx, "device_add", d, nil); err != nil {
			t.Fatalf("device_add %v: %v", d, err)
		}
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
