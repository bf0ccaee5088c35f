package ramdisk_test

import (
	"crypto/sha256"
	"debug/pe"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/agentvm"
)

// Two builds are the same bytes, also of a copy of the source elsewhere, with another time zone, umask and environment.
func TestSameBytesEachTime(t *testing.T) {
	var results []ramdisk.Result
	for _, source := range []string{"", copied(t)} {
		began := time.Now()
		if source != "" { // another builder, with other habits
			for name, value := range map[string]string{"TZ": "Pacific/Auckland", "LC_ALL": "C", "GOFLAGS": "-tags=other", "GOAMD64": "v3", "SOURCE_DATE_EPOCH": "1"} {
				t.Setenv(name, value)
			}
			defer syscall.Umask(syscall.Umask(0o077))
		}
		r, err := ramdisk.Build(t.Context(), ramdisk.Options{Source: source, OutDir: t.TempDir(), CacheDir: agentvm.KernelCache(), UKI: &ramdisk.UKI{Fingerprint: "ab12"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("kernel %s: %d bytes, initramfs: %d bytes with %d modules, built in %v", r.KernelVersion, r.KernelBytes, r.InitramfsBytes, r.Modules, time.Since(began).Round(time.Millisecond))
		for path, n := range map[string]int64{r.Kernel: r.KernelBytes, r.Initramfs: r.InitramfsBytes, r.UKI: r.UKIBytes} {
			if st, err := os.Stat(path); err != nil || st.Size() != n {
				t.Errorf("%s: %v, want %d bytes", path, err, n)
			}
		}
		results = append(results, r)
	}
	if a, b := results[0], results[1]; a.InitramfsSHA256 != b.InitramfsSHA256 || a.KernelSHA256 != b.KernelSHA256 || a.UKISHA256 != b.UKISHA256 {
		t.Errorf("two builds differ:\n%+v\n%+v", a, b)
	}
	checkProgram(t, results[0])
}

// copied is the source of the agent in another folder, with another time on each file.
func copied(t *testing.T) string {
	t.Helper()
	root, to := filepath.Join("..", ".."), t.TempDir()
	for _, part := range []string{"agent", "protocol"} {
		if err := os.CopyFS(filepath.Join(to, part), os.DirFS(filepath.Join(root, part))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		body, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// checkProgram looks for the parts of kernel, initramfs and command line in the one program.
func checkProgram(t *testing.T, r ramdisk.Result) {
	t.Helper()
	f, err := pe.Open(r.UKI)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	part := func(name string) []byte {
		s := f.Section(name)
		if s == nil {
			t.Fatalf("the program has no section %s", name)
		}
		data, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		return data[:s.VirtualSize]
	}
	for name, want := range map[string]string{".linux": r.KernelSHA256, ".initrd": r.InitramfsSHA256} {
		if sum := sha256.Sum256(part(name)); hex.EncodeToString(sum[:]) != want {
			t.Errorf("section %s is no copy of the file", name)
		}
	}
	if line := string(part(".cmdline")); line != ramdisk.DefaultParams+" ironyard-boot-server=dhcp ironyard-api-fingerprint=ab12" {
		t.Errorf("command line %q", line)
	}
	if part(".sbat") == nil || part(".osrel") == nil {
		t.Error("the program does not say what it is")
	}
}

func TestRefusals(t *testing.T) {
	for name, o := range map[string]ramdisk.Options{
		"no folders":     {},
		"no such agent":  {Agent: filepath.Join(t.TempDir(), "none"), OutDir: t.TempDir(), CacheDir: agentvm.KernelCache()},
		"unknown module": {Agent: "/bin/true", Modules: []string{"no_such_module"}, OutDir: t.TempDir(), CacheDir: agentvm.KernelCache()},
	} {
		if _, err := ramdisk.Build(t.Context(), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The list for real machines must name modules that the kernel has. It needs the
// large kernel package, so it runs where that is wanted.
func TestModulesOfRealMachines(t *testing.T) {
	names := ramdisk.Modules(debkernel.Generic)
	if len(names) <= len(ramdisk.Modules(debkernel.Cloud)) {
		t.Fatal("real machines get no more modules than virtual ones")
	}
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("fetches the kernel of real machines; set IRONYARD_E2E=1")
	}
	k, err := debkernel.Fetch(t.Context(), agentvm.KernelCache(), debkernel.Generic)
	if err != nil {
		t.Fatal(err)
	}
	files, err := k.Modules(names...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d modules", len(files))
	arm, err := debkernel.Fetch(t.Context(), agentvm.KernelCache(), debkernel.GenericARM64)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := arm.Modules(ramdisk.Modules(debkernel.GenericARM64)...); err != nil {
		t.Error(err)
	}
	// This kernel has no checksum of ext4, xfs and bnx2x built in.
	files, err = k.Modules("ext4", "xfs", "bnx2x")
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) int {
		return slices.IndexFunc(files, func(f debkernel.ModuleFile) bool { return f.Name == name })
	}
	if sum := at("crc32c_generic"); sum < 0 || sum > at("ext4") || sum > at("libcrc32c") {
		t.Errorf("crc32c is module %d, ext4 %d, libcrc32c %d", sum, at("ext4"), at("libcrc32c"))
	}
}
