package deploy

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/container"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// opened keeps a disk in use as a mapping does, until it is removed.
type opened struct{ *os.File }

func (o *opened) Clear(disk string) ([]string, error) {
	if o.File == nil || o.Name() != disk {
		return nil, nil
	}
	err := o.Close()
	o.File = nil
	return []string{"root"}, err
}

// bootc opens the root partition by dm-crypt (bootc_tpm2_luks) and closes that at its good end alone. A container that fails, or is ended
// in between, leaves the mapping. The disk has to be left so that nothing boots from it all the same.
func TestAMappingThatAContainerLeavesDoesNotKeepTheDiskBootable(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not run: a loop device wants root")
	}
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const large = 2 << 30
	if err := os.Truncate(file, large); err != nil {
		t.Fatal(err)
	}
	disk := loopDevice(t, file, "--partscan")
	left := &opened{}
	t.Cleanup(func() { _, _ = left.Clear(disk) })
	run := installs(func(disk string) error {
		f, err := os.OpenFile(disk, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(bytes.Repeat([]byte{0xeb}, 512), 0)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if left.File, err = os.OpenFile(disk, os.O_RDONLY|unix.O_EXCL, 0); err != nil {
			return err
		}
		return &container.FailedError{Image: "r.example/os:1", During: container.Run, Why: errors.New("podman ended with status 1"), Said: "No space left on device"}
	})
	d, _, _ := fixture(t, nil)
	d.Machine = both{{Name: disk, Size: large, Serial: "ROOT"}}
	d.Containers, d.Mappings = run, left
	_, err := d.InstallContainer(t.Context(), root(), Container{Source: "oci://r.example/os:1", TPM2LUKS: true}, func(agentapi.Progress) {})
	if err == nil || !strings.Contains(err.Error(), "No space left on device") || strings.Contains(err.Error(), "nor can it be wiped") {
		t.Errorf("the installation ends with %v", err)
	}
	first := make([]byte, 512)
	f, oerr := os.Open(file)
	if oerr != nil {
		t.Fatal(oerr)
	}
	defer f.Close()
	if _, err := f.ReadAt(first, 0); err != nil {
		t.Fatal(err)
	}
	if first[0] != 0 {
		t.Errorf("the disk is not wiped: %v", err)
	}
	_, err = d.InstallContainer(t.Context(), root(), Container{Source: "oci://r.example/os:1", TPM2LUKS: true}, func(agentapi.Progress) {})
	if err == nil || !strings.Contains(err.Error(), "No space left on device") {
		t.Errorf("once more, in the same ramdisk: %v", err)
	}
}

// A disk that a mapping keeps which does not go is told with both errors, and an installation does not begin on it.
func TestAMappingThatStaysIsTold(t *testing.T) {
	d, _ := contained(t, func(string) error { return errors.New("it began") })
	d.Machine = both{{Name: filepath.Join(t.TempDir(), "gone"), Size: 2 << 30, Serial: "ROOT"}}
	if err := os.Mkdir(d.Machine.(both)[0].Name, 0o700); err != nil { // no disk: it cannot be opened for writing
		t.Fatal(err)
	}
	d.Mappings = stays{}
	_, err := d.InstallContainer(t.Context(), root(), Container{Source: "oci://r.example/os:1"}, func(agentapi.Progress) {})
	if !errors.Is(err, errStays) || strings.Contains(err.Error(), "it began") {
		t.Errorf("%v", err)
	}
}

var errStays = errors.New("removing mapping root: device or resource busy")

type stays struct{}

func (stays) Clear(string) ([]string, error) { return nil, errStays }
