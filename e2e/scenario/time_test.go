package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/protocol/provision"
)

// way is how a machine comes to its ramdisk: its firmware, a boot interface, and what is loaded in between.
type way struct{ machine, boot, by string }

func (w way) String() string { return fmt.Sprintf("%-8s %-22s %-14s", w.machine, w.boot, w.by) }

// ways are those of rackds that give machines of the interface pxe iPXE, and those of rackds that give them GRUB and pxelinux.
var (
	ways = []way{
		{"http-0", "http", "UKI, HTTP"}, {"http-0", "http-ipxe", "iPXE, HTTP"}, {"http-0", "redfish-https", "ISO, HTTP"},
		{"uefi-0", "http", "UKI, TFTP"}, {"uefi-0", "ipxe", "iPXE, HTTP"}, {"uefi-0", "pxe", "iPXE, TFTP"}, {"uefi-0", "redfish-virtual-media", "ISO in a drive"},
		{"bios-0", "ipxe", "iPXE, HTTP"}, {"bios-0", "pxe", "iPXE, TFTP"}, {"bios-0", "redfish-virtual-media", "ISO in a drive"},
	}
	loaderWays = []way{{"uefi-0", "pxe", "GRUB, TFTP"}}
)

// How long each way takes from the request of an inspection until the ramdisk's kernel runs, and until its agent is known. The test prints
// it. make boot runs it.
func TestTimeToTheRamdisk(t *testing.T) {
	if os.Getenv("IRONYARD_BOOT") == "" {
		t.Skip("takes minutes: make boot runs it")
	}
	ctx := limit(t, 60*time.Minute)
	serveProgram(t, signed(t, unsigned))
	table := []string{way{"machine", "boot", "by"}.String() + " to its kernel  to its agent"}
	measure := func(t *testing.T, list []way) {
		for _, w := range list {
			t.Run(w.machine+"/"+w.boot, func(t *testing.T) {
				table = append(table, w.String()+w.measure(ctx, t))
				t.Log(table[len(table)-1])
			})
		}
	}
	measure(t, ways)
	t.Run("other loaders", func(t *testing.T) {
		restartAll(ctx, t, loaderArgs(ctx, t)...)
		t.Cleanup(func() { restartAll(context.WithoutCancel(ctx), t) })
		measure(t, loaderWays)
	})
	fmt.Println(strings.Join(table, "\n"))
}

// measure inspects a machine and returns its two times.
func (w way) measure(ctx context.Context, t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Minute, errors.New("not within 10 minutes"))
	defer cancel()
	o := theRack.Operator
	id := enrolled(ctx, t, w.machine, byMedium(w.boot))
	if err := o.Ask(ctx, id, "manage", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.Manageable); err != nil {
		t.Fatal(err)
	}
	console, began := consoleFromNow(t, w.machine), time.Now()
	if err := o.Ask(ctx, id, "inspect", nil); err != nil {
		t.Fatal(err)
	}
	var after []float64
	for _, sign := range []*regexp.Regexp{regexp.MustCompile("Linux version"), agentKnown} {
		if _, err := console.Wait(ctx, sign); err != nil {
			t.Fatalf("no %s on the console: %v", sign, err)
		}
		after = append(after, time.Since(began).Seconds())
	}
	if _, err := o.Wait(ctx, id, provision.Manageable); err != nil {
		t.Fatal(err)
	}
	if said := historyOf(ctx, t, id); !strings.Contains(said, w.sign()) {
		t.Errorf("the history does not say %q, so the machine came another way:\n%s", w.sign(), said)
	}
	return fmt.Sprintf("%10.1f s %11.1f s", after[0], after[1])
}

// sign is what the history says of this way, and of no other on the same machine with the same boot interface.
func (w way) sign() string {
	return map[string]string{"UKI, HTTP": "MB by HTTP", "iPXE, HTTP": ", by HTTP", "ISO, HTTP": "medium", "UKI, TFTP": "ramdisk.efi", "iPXE, TFTP": ", by TFTP", "ISO in a drive": "virtual media: the BMC shows",
		"GRUB, TFTP": "shimx64.efi"}[w.by]
}

// loaderArgs have rackds give machines of the interface pxe the loaders of Debian's packages, which are fetched and not installed: an
// installed shim changes what other tests boot.
func loaderArgs(ctx context.Context, t *testing.T) []string {
	t.Helper()
	args := []string{"--pxe-loader", "grub"}
	for name, at := range map[string]string{
		"shimx64.efi": ofPackage(ctx, t, "shim-signed", "usr/lib/shim/shimx64.efi.signed"),
		"grubx64.efi": ofPackage(ctx, t, "grub-efi-amd64-signed", "usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed"),
	} {
		args = append(args, "--pxe-loader-files", name+"="+at)
	}
	return args
}

// ofPackage is a file of a Debian package that is not installed.
func ofPackage(ctx context.Context, t *testing.T, pkg, path string) string {
	t.Helper()
	cache := os.Getenv("IRONYARD_CACHE")
	if cache == "" {
		cache = filepath.Join("..", "..", ".cache")
	}
	body, err := debkernel.File(ctx, filepath.Join(cache, "kernel"), pkg, path)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(at, body, 0o644); err != nil {
		t.Fatal(err)
	}
	return at
}
