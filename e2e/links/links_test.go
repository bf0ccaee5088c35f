package links

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/initramfs"
	"github.com/ironyard/ironyard/ops/virtual/agentvm"
)

// programs are what the tests run, by the name that finds them here.
var programs = []string{"ip", "nsenter", "dnsmasq", "sleep", "busybox"}

// run is the first program of the machine. It prints how the tests have ended.
const run = `#!/bin/busybox sh
export PATH=/bin TMPDIR=/tmp
busybox mount -t proc none /proc
busybox mount -t sysfs none /sys
busybox mount -t tmpfs none /tmp
while read m; do busybox insmod $m || echo "no module $m"; done < /modules.list
busybox ip link set lo up
/bin/netup.test -test.v -test.parallel 2 -test.run '^(TestBonds|TestBondOfWhatIsThere|TestAgentStartsAgain|TestNetworksOfDnsmasq)$'
echo "TESTS-ENDED $?"
busybox poweroff -f
`

// The tests of bonds and VLANs pass on Debian's kernel, where veth cables and iproute2 stand for cards and the judge. IRONYARD_E2E=1; two
// minutes or three.
func TestOnAKernelWithBonds(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("boots a kernel in QEMU; set IRONYARD_E2E=1")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	kernel, err := debkernel.Fetch(ctx, agentvm.KernelCache(), debkernel.Cloud)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-accel", "tcg,thread=multi", "-M", "q35", "-cpu", "max",
		"-m", "768", "-kernel", kernel.Image, "-initrd", system(ctx, t, kernel), "-append", "console=ttyS0 quiet no_timer_check panic=-1 rdinit=/run.sh", "-serial", "stdio")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	text := strings.ReplaceAll(string(out), "\r", "")
	if err != nil || !strings.Contains(text, "\nTESTS-ENDED 0\n") || strings.Contains(text, "--- SKIP") || strings.Contains(text, "no module") {
		t.Errorf("qemu: %v", err)
	}
	for _, name := range []string{"TestBonds", "TestBondOfWhatIsThere", "TestAgentStartsAgain", "TestNetworksOfDnsmasq"} {
		if !strings.Contains(text, "\n--- PASS: "+name+" ") {
			t.Errorf("%s has not passed", name)
		}
	}
	t.Logf("%s", text)
}

// system is an initramfs with the test program, the programs that it runs, and the modules that it needs.
func system(ctx context.Context, t *testing.T, kernel debkernel.Kernel) string {
	t.Helper()
	dir := t.TempDir()
	tests := filepath.Join(dir, "netup.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", tests, "github.com/ironyard/ironyard/agent/netup")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the test program: %v: %s", err, out)
	}
	var archive bytes.Buffer
	z, err := initramfs.Compress(&archive, initramfs.Zstd)
	if err != nil {
		t.Fatal(err)
	}
	w := initramfs.NewWriter(z)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	add := func(path string, mode fs.FileMode, data []byte) {
		t.Helper()
		must(w.AddFile(path, mode, data))
	}
	must(w.AddDevice("dev/console", initramfs.CharDevice, 0o600, 5, 1))
	must(w.AddDevice("dev/null", initramfs.CharDevice, 0o666, 1, 3))
	must(w.AddDevice("dev/urandom", initramfs.CharDevice, 0o666, 1, 9))
	for _, d := range []string{"proc", "sys", "tmp", "run"} {
		must(w.AddDir(d, 0o755))
	}
	add("run.sh", 0o755, []byte(run))
	add("etc/passwd", 0o644, []byte("root:x:0:0::/:/bin/sh\n"))
	add("etc/group", 0o644, []byte("root:x:0:\n"))
	files := map[string]string{"bin/netup.test": tests}
	for _, name := range programs {
		at, err := exec.LookPath(name)
		must(err)
		files["bin/"+name] = at
		for _, library := range libraries(ctx, t, at) {
			files[strings.TrimPrefix(library, "/")] = library
		}
	}
	for to, from := range files {
		data, err := os.ReadFile(from)
		must(err)
		add(to, 0o755, data)
	}
	modules, err := kernel.Modules("veth", "bonding", "8021q", "bridge", "af_packet", "ipv6")
	must(err)
	var list strings.Builder
	for n, m := range modules {
		path := fmt.Sprintf("modules/%02d-%s.ko", n, m.Name)
		add(path, 0o644, m.Data)
		parameters := ""
		if m.Name == "bonding" {
			parameters = " max_bonds=0"
		}
		fmt.Fprintf(&list, "/%s%s\n", path, parameters)
	}
	add("modules.list", 0o644, []byte(list.String()))
	must(w.Close())
	must(z.Close())
	image := filepath.Join(dir, "initramfs")
	must(os.WriteFile(image, archive.Bytes(), 0o600))
	return image
}

// libraries are those that a program of this machine is linked with, and the loader.
func libraries(ctx context.Context, t *testing.T, program string) (list []string) {
	t.Helper()
	out, err := exec.CommandContext(ctx, "ldd", program).CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("not a dynamic executable")) {
		t.Fatalf("ldd %s: %v: %s", program, err, out)
	}
	for word := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(word, "/") {
			list = append(list, word)
		}
	}
	return list
}
