package ramdisk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/elflibs"
	"github.com/ironyard/ironyard/ops/initramfs"
)

// podmanFolder is where the agent looks for podman (agent/container).
const podmanFolder = "podman"

// podmanPrograms are the programs of a ramdisk with podman, by their packages. Bootc starts udevadm and podman on its host.
var podmanPrograms = []struct{ pkg, path string }{
	{"podman", "usr/bin/podman"}, {"conmon", "usr/bin/conmon"}, {"crun", "usr/bin/crun"}, {"udev", "bin/udevadm"},
}

// podmanLibraries are the packages with the libraries that these need.
var podmanLibraries = []string{"libc6", "libgcc-s1", "libgpgme11", "libassuan0", "libgpg-error0", "libdevmapper1.02.1", "libsubid4", "libseccomp2", "libsystemd0", "libcap2",
	"libyajl2", "libglib2.0-0", "libpcre2-8-0", "zlib1g", "libselinux1", "libudev1", "libaudit1", "libcap-ng0", "libcrypt1", "libpam0g", "libsemanage2", "libsemanage-common",
	"libsepol2", "libbz2-1.0", "libgcrypt20", "liblz4-1", "liblzma5", "libzstd1", "libacl1", "libattr1", "libblkid1", "libkmod2", "libssl3", "libmount1", "libffi8"}

// podmanFiles are podman's own settings, as Debian has them: which signatures are asked for, and where images are looked for.
var podmanFiles = []struct{ pkg, path string }{
	{"golang-github-containers-common", "etc/containers/policy.json"}, {"golang-github-containers-image", "etc/containers/registries.conf"},
	{"golang-github-containers-common", "usr/share/containers/seccomp.json"},
}

// authorities are the certificates by which registries are believed.
const (
	authoritiesPackage = "ca-certificates"
	authoritiesPattern = "usr/share/ca-certificates/mozilla/*.crt"
	authoritiesFile    = "etc/ssl/certs/ca-certificates.crt"
)

// containerModules are the modules of the kernel that podman and an installation by bootc need, but for those of the ramdisk itself.
var containerModules = []string{"overlay", "loop", "ext4", "xfs", "btrfs", "erofs", "vfat", "nls_cp437", "nls_ascii", "nls_utf8", "dm_mod", "dm_crypt"}

// Podman is what a ramdisk that runs containers has besides.
type Podman struct {
	// Config is a folder whose files are laid over /etc/containers: certs.d with the authorities of registries, registries.conf.d, policy.json.
	// Empty: Debian's settings stay as they are.
	Config string
}

// podmanTree are the files of podman, by their paths below podmanFolder, with their modes.
type podmanTree map[string]struct {
	perm fs.FileMode
	data []byte
}

func (t podmanTree) add(name string, perm fs.FileMode, data []byte) {
	t[name] = struct {
		perm fs.FileMode
		data []byte
	}{perm, data}
}

// podmanOf gathers podman from Debian's packages of an architecture.
func podmanOf(ctx context.Context, cacheDir, arch string, p Podman) (podmanTree, error) {
	t := podmanTree{}
	triplet := map[string]string{AMD64: "x86_64-linux-gnu", ARM64: "aarch64-linux-gnu"}[arch]
	var todo []string
	for _, f := range podmanPrograms {
		data, err := debkernel.File(ctx, cacheDir, packageOf(f.pkg, arch), f.path)
		if err != nil {
			return nil, fmt.Errorf("podman: %w", err)
		}
		name := path.Join("usr/bin", path.Base(f.path))
		t.add(name, 0o755, data)
		todo = append(todo, name)
	}
	for ; len(todo) > 0; todo = todo[1:] {
		libraries, loader, err := elflibs.Needs(t[todo[0]].data)
		if err != nil {
			return nil, fmt.Errorf("libraries of podman's /%s: %w", todo[0], err)
		}
		for _, name := range libraries {
			at := path.Join("usr/lib", triplet, name)
			if _, there := t[at]; there {
				continue
			}
			data, err := library(ctx, cacheDir, arch, triplet, name)
			if err != nil {
				return nil, fmt.Errorf("podman's /%s: %w", todo[0], err)
			}
			t.add(at, 0o644, data)
			todo = append(todo, at)
		}
		if loader != "" {
			data, err := library(ctx, cacheDir, arch, triplet, path.Base(loader))
			if err != nil {
				return nil, fmt.Errorf("the loader of podman's /%s: %w", todo[0], err)
			}
			t.add(path.Join("usr", loader), 0o755, data)
		}
	}
	for _, f := range podmanFiles {
		data, err := debkernel.File(ctx, cacheDir, f.pkg, f.path)
		if err != nil {
			return nil, fmt.Errorf("podman: %w", err)
		}
		t.add(f.path, 0o644, data)
	}
	authorities, err := debkernel.Glob(ctx, cacheDir, authoritiesPackage, authoritiesPattern)
	if err == nil && len(authorities) == 0 {
		err = fmt.Errorf("package %s has no %s", authoritiesPackage, authoritiesPattern)
	}
	var all bytes.Buffer
	for _, name := range authorities {
		data, ferr := debkernel.File(ctx, cacheDir, authoritiesPackage, name)
		err = errors.Join(err, ferr)
		all.Write(data)
	}
	if err != nil {
		return nil, fmt.Errorf("certificates of authorities: %w", err)
	}
	t.add(authoritiesFile, 0o644, all.Bytes())
	if p.Config == "" {
		return t, nil
	}
	return t, t.overlay(p.Config)
}

// library finds a library in the packages that have them.
func library(ctx context.Context, cacheDir, arch, triplet, name string) ([]byte, error) {
	for _, pkg := range podmanLibraries {
		data, err := debkernel.File(ctx, cacheDir, packageOf(pkg, arch), path.Join("lib", triplet, name))
		if !errors.Is(err, os.ErrNotExist) {
			return data, err
		}
	}
	return nil, fmt.Errorf("library %s is in none of the packages %s: Debian has moved it", name, strings.Join(podmanLibraries, ", "))
}

// overlay lays the files of a folder over /etc/containers.
func (t podmanTree) overlay(folder string) error {
	err := filepath.WalkDir(folder, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, at)
		if err != nil {
			return err
		}
		t.add(path.Join("etc/containers", filepath.ToSlash(name)), 0o644, data)
		return nil
	})
	if err != nil {
		return fmt.Errorf("settings of podman: %w", err)
	}
	return nil
}

// bytes is how much the files are, unpacked.
func (t podmanTree) bytes() (n int64) {
	for _, f := range t {
		n += int64(len(f.data))
	}
	return n
}

// write puts the files into an archive, in order.
func (t podmanTree) write(w *initramfs.Writer) error {
	if len(t) == 0 {
		return nil
	}
	var names []string
	for name := range t {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} { // as in Debian
		if err := w.AddSymlink(path.Join(podmanFolder, dir), "usr/"+dir); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := w.AddFile(path.Join(podmanFolder, name), t[name].perm, t[name].data); err != nil {
			return err
		}
	}
	return w.AddDir(path.Join(podmanFolder, "usr/sbin"), 0o755)
}
