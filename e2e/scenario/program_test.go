package scenario

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/uki"
	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/ops/virtual/uefivars"
	"github.com/ironyard/ironyard/protocol/provision"
)

// The fleet has a key of its own for secure boot: fleetKey signs, and fleetVariables is firmware that knows its certificate alone.
const fleetVariables = "fleet-variables.fd"

var (
	fleetKey *uki.Signer
	// fleetCertificate is the key's, in PEM.
	fleetCertificate string
	// unsigned is the ramdisk as one program, before a key has signed it.
	unsigned []byte
)

// programPath is the file that rackds give machines' firmware to start.
func programPath(dir string) string { return filepath.Join(dir, "program.efi") }

// makeFleetKeys makes a key and firmware that enforces it.
func makeFleetKeys(dir string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fleet"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	fleetCertificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if fleetKey, err = uki.NewSigner(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), []byte(fleetCertificate)); err != nil {
		return err
	}
	s, err := uefivars.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd")
	if err != nil {
		return err
	}
	err = errors.Join(s.SetKeys(uefivars.Keys{Owner: uuid.New(), PK: der, KEK: [][]byte{der}, DB: [][]byte{der}}, time.Now()), s.SetSecureBoot(true))
	return errors.Join(err, s.WriteFile(filepath.Join(dir, fleetVariables)))
}

// serveProgram has rackds serve a program.
func serveProgram(t *testing.T, body []byte) {
	t.Helper()
	at := programPath(filepath.Dir(theRack.Rackds[0].Log()))
	if err := os.WriteFile(at+".new", body, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(at+".new", at); err != nil {
		t.Fatal(err)
	}
}

func signed(t *testing.T, program []byte) []byte {
	t.Helper()
	body, err := fleetKey.Sign(program)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// told waits for lines of a console that say that firmware refused what it loaded, and that an agent is known.
var (
	firmwareRefused = regexp.MustCompile(`BdsDxe: failed to load Boot[0-9A-F]+ "Management HTTP".*`)
	secureKernel    = regexp.MustCompile(`[Ss]ecure boot enabled`)
	agentKnown      = regexp.MustCompile(`this machine is known.*`)
)

// byProgram enrols the machine whose firmware is to load the ramdisk as one program.
func byProgram(ctx context.Context, t *testing.T) string {
	t.Helper()
	id := enrolled(ctx, t, "secure-0", byMedium("http"))
	if err := theRack.Operator.Ask(ctx, id, "manage", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := theRack.Operator.Wait(ctx, id, provision.Manageable); err != nil {
		t.Fatal(err)
	}
	return id
}

// Firmware that enforces the fleet's key does not start the ramdisk without its signature. With it the firmware's own HTTP client loads
// kernel, ramdisk and command line in one, and the agent is known to belong to the boot that rackd has caused.
func TestSignedProgram(t *testing.T) {
	ctx := limit(t, 10*time.Minute)
	enforcesTheFleetsKey(ctx, t, byProgram(ctx, t))
}

// Firmware without keys starts what has no signature. After the step that enrols the fleet's it starts no program but what the fleet's key
// has signed. make hardware runs it.
func TestEnrolledKeysAreEnforcedBySecureBoot(t *testing.T) {
	needsTime(t)
	ctx := limit(t, 20*time.Minute)
	o, firmware := theRack.Operator, theRack.Serving.Machines["secure-0"]
	t.Cleanup(func() {
		if err := errors.Join(firmware.ResetKeys(machine.DefaultKeys), firmware.SetSecureBoot(true)); err != nil {
			t.Error(err)
		}
	})
	if err := firmware.ResetKeys(machine.NoKeys); err != nil {
		t.Fatal(err)
	}
	id := byProgram(ctx, t)
	inspected := func() {
		t.Helper()
		if err := o.Ask(ctx, id, "inspect", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Wait(ctx, id, provision.Manageable); err != nil {
			t.Fatal(err)
		}
	}
	serveProgram(t, unsigned)
	inspected() // by a program without a signature
	enrols := map[string]any{"interface": "management", "step": "enrol_secure_boot_certificates", "args": map[string]any{"PK": fleetCertificate, "KEK": fleetCertificate, "db": fleetCertificate}}
	if err := o.Provision(ctx, id, map[string]any{"target": "clean", "clean_steps": []any{enrols}, "disable_ramdisk": true}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.Manageable); err != nil {
		t.Fatal(err)
	}
	if err := firmware.SetSecureBoot(true); err != nil {
		t.Fatal(err)
	}
	enforcesTheFleetsKey(ctx, t, id)
}

// enforcesTheFleetsKey sees that the machine's firmware refuses the program without a signature and starts the signed one.
func enforcesTheFleetsKey(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	o := theRack.Operator
	console := consoleFromNow(t, "secure-0")
	earlier, err := os.ReadFile(console.Path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the machine has not run yet
		t.Fatal(err)
	}
	serveProgram(t, unsigned)
	began := time.Now()
	if err := o.Ask(ctx, id, "inspect", nil); err != nil {
		t.Fatal(err)
	}
	line, err := console.Wait(ctx, firmwareRefused)
	if err != nil {
		t.Fatalf("the firmware does not refuse the unsigned program: %v", err)
	}
	t.Logf("%4.1fs %s", time.Since(began).Seconds(), strings.TrimSpace(line))
	if err := o.Ask(ctx, id, "abort", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.InspectFail); err != nil {
		t.Fatal(err)
	}
	if err := o.WaitFree(ctx, id); err != nil {
		t.Fatal(err)
	}
	if log, err := os.ReadFile(console.Path()); err != nil || len(log) < len(earlier) || bytes.Contains(log[len(earlier):], []byte("Linux version")) {
		t.Fatalf("the unsigned program ran (%v)", err)
	}
	serveProgram(t, signed(t, unsigned))
	console = consoleFromNow(t, "secure-0")
	began = time.Now()
	if err := o.Ask(ctx, id, "inspect", nil); err != nil {
		t.Fatal(err)
	}
	for _, sign := range []*regexp.Regexp{secureKernel, agentKnown} {
		if line, err = console.Wait(ctx, sign); err != nil {
			t.Fatalf("no %s on the console: %v", sign, err)
		}
		t.Logf("%4.1fs %s", time.Since(began).Seconds(), strings.TrimSpace(line))
	}
	if _, err := o.Wait(ctx, id, provision.Manageable); err != nil {
		t.Fatal(err)
	}
	said := historyOf(ctx, t, id)
	for _, want := range []string{"for UEFI HTTP boot", "MB by HTTP", "parameters: ramdisk"} {
		if !strings.Contains(said, want) {
			t.Errorf("the history does not say %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, "tftp") || strings.Contains(said, "iPXE") {
		t.Errorf("a boot program came in between:\n%s", said)
	}
}

// An instance that asks for secure boot gets it, from an image whose loader the fleet's key has signed. After the tear-down it is as it
// was before.
func TestInstanceBySecureBoot(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("it takes minutes: make hardware runs it")
	}
	ctx := limit(t, 15*time.Minute)
	serveProgram(t, signed(t, unsigned))
	image := signedImage(ctx, t)
	firmware := theRack.Serving.Machines["secure-0"]
	t.Cleanup(func() {
		if err := firmware.SetSecureBoot(true); err != nil {
			t.Error(err)
		}
	})
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("on before: %t", before), func(t *testing.T) {
			if err := firmware.SetSecureBoot(before); err != nil {
				t.Fatal(err)
			}
			said := deploysSecurely(ctx, t, image, before)
			after, err := firmware.SecureBoot()
			if err != nil {
				t.Fatal(err)
			}
			if after.Next != before {
				t.Errorf("after the tear-down secure boot is %t, and it was %t before the instance", after.Next, before)
			}
			if !strings.Contains(said, "secure boot: on, for the instance") || strings.Contains(said, "secure boot: off") == before {
				t.Errorf("the history says\n%s", said)
			}
		})
	}
}

// deploysSecurely deploys an instance that asks for secure boot, which may be on before, sees that it is on, and tears the instance down.
// It returns the node's history.
func deploysSecurely(ctx context.Context, t *testing.T, image operator.Image, before bool) string {
	t.Helper()
	o := theRack.Operator
	id := enrolled(ctx, t, "secure-0", byMedium("http"))
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(ctx, id, image); err != nil {
		t.Fatal(err)
	}
	if err := o.Set(ctx, id, "/instance_info/capabilities", map[string]any{"secure_boot": "true"}); err != nil {
		t.Fatal(err)
	}
	console := consoleFromNow(t, "secure-0")
	began := time.Now()
	deployed(ctx, t, id, "secure-0")
	t.Logf("%.0f s from the request to the instance's words", time.Since(began).Seconds())
	// As with Ironic it is switched on for the instance, after the ramdisk. Where it was on before, the ramdisk's kernel says so, too.
	kernels := map[bool]int{true: 2, false: 1}[before]
	for range kernels {
		if _, err := console.Wait(ctx, secureKernel); err != nil {
			t.Errorf("the instance's kernel does not say that secure boot is on: %v", err)
		}
	}
	undeployed(ctx, t, id)
	return historyOf(ctx, t, id)
}

// historyOf is what the history of a node says, a line an event.
func historyOf(ctx context.Context, t *testing.T, id string) string {
	t.Helper()
	text, err := theRack.Operator.HistoryText(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// signedImage is the test image with a loader that the fleet's key has signed: its kernel and initramfs as one program.
func signedImage(ctx context.Context, t *testing.T) operator.Image {
	t.Helper()
	dir := t.TempDir()
	const name = "signed.raw"
	run := changedImage(ctx, t, name)
	run("mcopy", "::vmlinuz", filepath.Join(dir, "kernel"))
	run("mcopy", "::initrd", filepath.Join(dir, "initrd"))
	kernel, err := os.ReadFile(filepath.Join(dir, "kernel"))
	if err != nil {
		t.Fatal(err)
	}
	initrd, err := os.ReadFile(filepath.Join(dir, "initrd"))
	if err != nil {
		t.Fatal(err)
	}
	cache := os.Getenv("IRONYARD_CACHE")
	if cache == "" {
		cache = filepath.Join("..", "..", ".cache")
	}
	stub, err := debkernel.File(ctx, filepath.Join(cache, "kernel"), "systemd-boot-efi", "lib/systemd/boot/efi/linuxx64.efi.stub")
	if err != nil {
		t.Fatal(err)
	}
	program, err := uki.Build(uki.Parts{Stub: stub, Kernel: kernel, Initramfs: initrd, CommandLine: "console=ttyS0,115200", OSRelease: "ID=test\n"})
	if err != nil {
		t.Fatal(err)
	}
	loader := filepath.Join(dir, "BOOTX64.EFI")
	if err := os.WriteFile(loader, signed(t, program), 0o644); err != nil {
		t.Fatal(err)
	}
	run("mdel", "::vmlinuz", "::initrd", "::EFI/BOOT/BOOTX64.EFI")
	run("mcopy", loader, "::EFI/BOOT/BOOTX64.EFI")
	return named(t, name)
}

// changedImage copies the test image into the folder that the rack gets its images from. It returns what runs a program of mtools on the
// copy's ESP.
func changedImage(ctx context.Context, t *testing.T, name string) (run func(program string, args ...string)) {
	t.Helper()
	const espStart = 2 << 20 // of ops/virtual/testimage
	raw, err := os.ReadFile(images.Raw.Path)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(imageFolder, name)
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	volume := path + "@@" + strconv.Itoa(espStart)
	return func(program string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(ctx, program, append([]string{"-i", volume}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v: %s (Debian's package mtools)", program, args, err, out)
		}
	}
}

// named is a raw image of that folder as an operator names it.
func named(t *testing.T, name string) operator.Image {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(imageFolder, name))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	return operator.Image{URL: theRack.ImageURL(name), SHA256: hex.EncodeToString(sum[:]), DiskFormat: "raw"}
}
