package tftp

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
)

// own is a machine that brings a kernel of its own.
type own struct{ *rack }

func (own) ByMAC(m string) (netboot.Machine, bool) {
	return netboot.Machine{UUID: "u", Order: bootorder.Order{OverTFTP: true, Load: &bootorder.Load{Kernel: bootorder.File{URL: "http://h/k", ID: "sha256-k"}, Initramfs: bootorder.File{URL: "http://h/r"}}}}, m == mac
}

// GRUB and pxelinux ask by the names that they make of the MAC address, and get what is made for it; the node's own kernel is sent
// out of the rack's cache, to its machine alone.
func TestLoadersOfTheInterfacePXE(t *testing.T) {
	s, r := newServer(t, []byte("kernel"))
	dir := t.TempDir()
	loaders := map[string]string{}
	for _, name := range []string{bootfiles.Shim, bootfiles.GRUB, bootfiles.PXELinux, bootfiles.PXELinuxCore} {
		loaders[name] = filepath.Join(dir, name)
		if err := os.WriteFile(loaders[name], []byte("loader"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := serve(t, s)
	for _, name := range []string{netboot.TFTPGRUBMain, netboot.TFTPGRUBPath + mac, netboot.PXELinuxPath + netboot.Dashed(mac), bootfiles.Shim} {
		if body, _, err := get(t, c, name); err == nil {
			t.Errorf("without these loaders %s is %q", name, body)
		}
	}
	for _, name := range []string{"k", "r", "undionly.kpxe"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := bootfiles.New(dir, bootfiles.Paths{Kernel: filepath.Join(dir, "k"), Ramdisk: filepath.Join(dir, "r"), Loaders: loaders})
	if err != nil {
		t.Fatal(err)
	}
	with, _ := newServer(t, nil)
	with.Files, with.Journal = files, r
	with.Scripts.Directory, with.Scripts.Journal = own{r}, r
	with.Own = func(id string) (io.ReadCloser, int64, error) {
		if id != "sha256-k" {
			return nil, 0, fs.ErrNotExist
		}
		return io.NopCloser(strings.NewReader("own kernel")), 10, nil
	}
	c, _ = serve(t, with)
	for name, want := range map[string]string{netboot.TFTPGRUBMain: "source $prefix/grub.cfg-01-$net_default_mac", netboot.TFTPGRUBMainX64: "source", netboot.TFTPGRUBPath + mac: "linux '/boot/own/52-54-00-00-00-01/kernel'",
		netboot.PXELinuxPath + netboot.Dashed(mac): "LINUX /boot/own/52-54-00-00-00-01/kernel", netboot.TFTPGRUBPath + "02:00:00:00:00:09": "is of no node",
		"//" + bootfiles.GRUB: "loader", netboot.OwnFilePath + netboot.Dashed(mac) + "/kernel": "own kernel"} {
		if body, size, err := get(t, c, name); err != nil || !strings.Contains(body, want) || size != int64(len(body)) {
			t.Errorf("%s: %d bytes %q, %v, want %q", name, size, body, err, want)
		}
	}
	for _, name := range []string{netboot.TFTPGRUBPath, netboot.TFTPGRUBPath + "x", netboot.OwnFilePath + netboot.Dashed(mac) + "/ramdisk", netboot.OwnFilePath + netboot.Dashed(mac) + "/secret", netboot.OwnFilePath + "02-00-00-00-00-09/kernel"} {
		if body, _, err := get(t, c, name); err == nil {
			t.Errorf("%s is %q", name, body)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := strings.Join(r.seen, "\n"); strings.Count(got, mac+" script") != 2 {
		t.Errorf("the journal has:\n%s", got)
	}
}
