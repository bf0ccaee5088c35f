package scenario

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/ramdisk"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Names of the files of what stands where Anaconda would. No Debian package has that.
const (
	installerRamdisk = "installer-ramdisk"
	installerStage2  = "installer-stage2"
	installerImage   = "installer-image.raw"
)

// byInstaller is the deploy interface anaconda with a script in the place of the installer. The kernel, curl, the shell and the kickstart
// with its sections are real.
const byInstaller = "anaconda, by a script in the installer's place"

// installed gives a node the fields of an instance that the script installs. The files are made at the first call.
func installed(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	if err := makeInstaller(ctx); err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{"kernel": theRack.ImageURL(ownKernel)}
	for field, name := range map[string]string{"ramdisk": installerRamdisk, "stage2": installerStage2, "image_source": installerImage} {
		fields[field] = theRack.ImageURL(name)
	}
	fields["image_checksum"] = images.Raw.SHA256
	for field, value := range fields {
		if err := theRack.Operator.Set(ctx, id, "/instance_info/"+field, value); err != nil {
			t.Fatal(err)
		}
	}
}

func makeInstaller(ctx context.Context) error {
	at := filepath.Join(imageFolder, installerRamdisk)
	if _, err := os.Stat(at); err == nil {
		return nil
	}
	kernel, err := debkernel.Fetch(ctx, kernelCache, debkernel.Cloud)
	if err != nil {
		return err
	}
	w, err := newTree(ctx, kernelCache)
	if err != nil {
		return err
	}
	init, err := os.ReadFile(filepath.Join("testdata", "installer-init"))
	stage2, err2 := os.ReadFile(filepath.Join("testdata", installerStage2))
	if err := errors.Join(err, err2, w.AddFile("init", 0o755, init), w.AddSymlink("bin/sh", "bash"), w.programs(ctx, "/usr/bin/curl", "/bin/bash"),
		w.modulesOf(kernel, ramdisk.Modules(debkernel.Cloud)...)); err != nil {
		return err
	}
	packed, err := w.packed()
	return errors.Join(err, os.Symlink(images.Raw.Path, filepath.Join(imageFolder, installerImage)), os.WriteFile(filepath.Join(imageFolder, installerStage2), stage2, 0o644),
		os.WriteFile(at, packed, 0o644))
}

// saysInstalled looks that the history has the reports of the kickstart's own scripts, and nothing that an agent does.
func saysInstalled(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	saysOf(t, historyOf(ctx, t, id), map[string]bool{"installer start: The installer has its kickstart and begins.": true,
		"installer end: The installer has ended.": true, "agent: ": false, "write: ": false, "not used: instance_info kernel": false})
}

// An installer that fails runs the kickstart's section %onerror: the deploy fails, and its error has the end of the installer's log.
// make boot runs it.
func TestInstallerFails(t *testing.T) {
	if os.Getenv("IRONYARD_BOOT") == "" {
		t.Skip("takes minutes: make boot runs it")
	}
	ctx := limit(t, 5*time.Minute)
	const name = "bios-0"
	id := enrolled(ctx, t, name, func(m *operator.Machine) { m.Interfaces = map[string]string{"boot": "ipxe", "deploy": "anaconda"} })
	if err := theRack.Operator.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	installed(ctx, t, id)
	if err := theRack.Operator.Set(ctx, id, "/instance_info/kernel_append_params", "installer.fails"); err != nil {
		t.Fatal(err)
	}
	fails(ctx, t, id, "active", provision.DeployFail, "the installer has failed", "the end of its log: it was told to fail")
	if said := historyOf(ctx, t, id); !strings.Contains(said, "installer start: ") {
		t.Errorf("the history does not say that the installer has begun:\n%s", said)
	}
	undeployed(ctx, t, id)
}
