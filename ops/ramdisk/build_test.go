package ramdisk_test

import (
	"crypto/sha256"
	"debug/pe"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/ramdisk"
	"github.com/ironyard/ironyard/ops/uki"
	"github.com/ironyard/ironyard/ops/uki/ukitest"
	"github.com/ironyard/ironyard/ops/virtual/agentvm"
)

// Two builds are the same bytes, also of a copy of the source elsewhere, with another time zone, umask and environment. So is the program
// that is signed: its signature holds no time.
func TestSameBytesEachTime(t *testing.T) {
	key, certificate := ukitest.Keys(t)
	signer, err := uki.NewSigner(key, certificate)
	if err != nil {
		t.Fatal(err)
	}
	signed := builtTwice(t, ramdisk.Options{UKI: &ramdisk.UKI{Fingerprint: "ab12", Signer: signer}})
	checkProgram(t, signed)
	t.Run("sbverify", func(t *testing.T) { checkSignature(t, signed, certificate) })
}

// The other kinds of ramdisk are the same bytes each time, too. Their packages are some hundred megabytes.
func TestSameBytesOfEachKind(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("fetches podman, the kernel of real machines and that of arm64: make hardware runs it")
	}
	key, certificate := ukitest.Keys(t)
	signer, err := uki.NewSigner(key, certificate)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		options ramdisk.Options
		holds   func(ramdisk.Result) bool // what makes the kind
	}{
		"for rescues": {ramdisk.Options{Rescue: true, UKI: &ramdisk.UKI{Signer: signer}}, func(r ramdisk.Result) bool { return filepath.Base(r.UKI) == ramdisk.RescueUKIName }},
		"with podman": {ramdisk.Options{Podman: &ramdisk.Podman{}}, func(r ramdisk.Result) bool { return r.PodmanBytes > 0 }},
		"with firmware": {ramdisk.Options{KernelPackage: debkernel.Generic, Firmware: []string{firmwareFolder(t), "firmware-linux-free"}},
			func(r ramdisk.Result) bool { return r.FirmwareFiles == 2 }},
		"for arm64": {ramdisk.Options{Arch: ramdisk.ARM64, UKI: &ramdisk.UKI{Signer: signer}}, func(r ramdisk.Result) bool { return strings.Contains(r.UKI, ramdisk.ARM64) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := builtTwice(t, c.options)
			if !c.holds(r) {
				t.Errorf("it is not of that kind: %+v", r)
			}
			if c.options.UKI != nil {
				checkSignature(t, r, certificate)
			}
		})
	}
}

// firmwareFolder is a folder as --firmware takes, with a file that a driver of real machines names.
func firmwareFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := filepath.Join(dir, "rtl_nic", "rtl8168d-1.fw")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte("firmware"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// builtTwice builds what o says, and once more as another builder with other habits does. The two have to be the same bytes.
func builtTwice(t *testing.T, o ramdisk.Options) ramdisk.Result {
	t.Helper()
	var results []ramdisk.Result
	for _, source := range []string{"", copied(t)} {
		began := time.Now()
		if source != "" {
			for name, value := range map[string]string{"TZ": "Pacific/Auckland", "LC_ALL": "C", "GOFLAGS": "-tags=other", "GOAMD64": "v3", "SOURCE_DATE_EPOCH": "1"} {
				t.Setenv(name, value)
			}
			defer syscall.Umask(syscall.Umask(0o077))
		}
		o.Source, o.OutDir, o.CacheDir = source, t.TempDir(), agentvm.KernelCache()
		r, err := ramdisk.Build(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("kernel %s: %d bytes, initramfs: %d bytes with %d modules, built in %v", r.KernelVersion, r.KernelBytes, r.InitramfsBytes, r.Modules, time.Since(began).Round(time.Millisecond))
		files := map[string]int64{r.Kernel: r.KernelBytes, r.Initramfs: r.InitramfsBytes}
		if o.UKI != nil {
			files[r.UKI] = r.UKIBytes
		}
		for path, n := range files {
			if st, err := os.Stat(path); err != nil || st.Size() != n {
				t.Errorf("%s: %v, want %d bytes", path, err, n)
			}
		}
		results = append(results, r)
	}
	if a, b := results[0], results[1]; a.InitramfsSHA256 != b.InitramfsSHA256 || a.KernelSHA256 != b.KernelSHA256 || a.UKISHA256 != b.UKISHA256 {
		t.Errorf("two builds differ:\n%+v\n%+v", a, b)
	}
	return results[0]
}

// checkSignature has Debian's sbverify judge the program, by its certificate and by another.
func checkSignature(t *testing.T, r ramdisk.Result, certificate []byte) {
	t.Helper()
	sbverify, err := exec.LookPath("sbverify")
	if err != nil {
		if os.Getenv("IRONYARD_E2E") != "" {
			t.Fatalf("%v (Debian's package sbsigntool)", err)
		}
		t.Skip("NOT RUN: no sbverify, of Debian's package sbsigntool")
	}
	_, stranger := ukitest.Keys(t)
	for name, c := range map[string]struct {
		certificate []byte
		good        bool
	}{"its own": {certificate, true}, "another's": {stranger, false}} {
		path := filepath.Join(t.TempDir(), "cert.pem")
		if err := os.WriteFile(path, c.certificate, 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := exec.CommandContext(t.Context(), sbverify, "--cert", path, r.UKI).CombinedOutput()
		if good := err == nil && strings.Contains(string(text), "Signature verification OK"); good != c.good {
			t.Errorf("sbverify by %s certificate: %v: %s", name, err, text)
		}
	}
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
	for name, c := range map[string]struct {
		options ramdisk.Options
		says    string
	}{
		"no folders":              {ramdisk.Options{}, "an output and a cache folder are needed"},
		"no such agent":           {ramdisk.Options{Agent: filepath.Join(t.TempDir(), "none")}, "no such file"},
		"an agent with libraries": {ramdisk.Options{Agent: "/bin/true", Arch: runtime.GOARCH}, "is linked dynamically"},
		"another architecture":    {ramdisk.Options{Arch: "riscv64"}, `there is none for architecture "riscv64"`},
		"unknown module":          {ramdisk.Options{Modules: []string{"no_such_module"}}, "has no module no_such_module"},
	} {
		if name != "no folders" {
			c.options.OutDir, c.options.CacheDir = t.TempDir(), agentvm.KernelCache()
		}
		if _, err := ramdisk.Build(t.Context(), c.options); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want a refusal that says %q", name, err, c.says)
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
