package debkernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"github.com/ironyard/ironyard/protocol/filelock"
)

// Packages are the Debian packages whose programs Fetch runs.
var Packages = []string{"apt", "dpkg"}

// Well-known meta packages, for Fetch.
const (
	// Cloud is the kernel for virtual machines: small, virtio and little else.
	Cloud = "linux-image-cloud-amd64"
	// Generic is the kernel with the drivers of real machines.
	Generic = "linux-image-amd64"
	// CloudARM64 and GenericARM64 are those of arm64. NAME:ARCH names a package of another architecture than this machine's, as dpkg
	// does; packages of that architecture need not be enabled here.
	CloudARM64   = "linux-image-cloud-arm64:arm64"
	GenericARM64 = "linux-image-arm64:arm64"
)

var (
	packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+(:[a-z0-9]+)?$`)
	realKernel  = regexp.MustCompile(`^linux-image-[0-9][a-z0-9+.~-]*(:[a-z0-9]+)?$`)
)

// Kernel is an unpacked kernel package.
type Kernel struct {
	// Package is the package that holds the files, never the meta package.
	Package string
	// Version is the kernel's release, as uname -r prints it.
	Version string
	// Image is the path of the kernel: on amd64 a bzImage, on arm64 an Image that UEFI can start.
	Image string
	// ModulesDir is the folder .../lib/modules/<Version>.
	ModulesDir string
}

// Fetch returns the kernel of a Debian package, downloading and unpacking it into
// cacheDir unless it is there. A meta package (linux-image-cloud-amd64) is followed
// to the kernel it depends on. With a filled cache it needs neither apt nor a
// network. Safe for concurrent use, also by several processes on one cacheDir.
func Fetch(ctx context.Context, cacheDir, pkg string) (Kernel, error) {
	if !packageName.MatchString(pkg) {
		return Kernel{}, fmt.Errorf("fetching kernel: %q is no Debian package name", pkg)
	}
	cacheDir, err := filepath.Abs(cacheDir)
	if err != nil {
		return Kernel{}, fmt.Errorf("fetching kernel %s: %w", pkg, err)
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return Kernel{}, fmt.Errorf("fetching kernel %s: %w", pkg, err)
	}
	unlock, err := filelock.Hold(ctx, filepath.Join(cacheDir, ".lock"))
	if err != nil {
		return Kernel{}, fmt.Errorf("fetching kernel %s: %w", pkg, err)
	}
	defer unlock()

	root := folder(cacheDir, pkg)
	if _, err := os.Stat(root); errors.Is(err, os.ErrNotExist) {
		if err := unpack(ctx, cacheDir, root, pkg, resolve); err != nil {
			return Kernel{}, fmt.Errorf("fetching kernel %s: %w", pkg, err)
		}
	}
	return open(root)
}

// File returns one file of a Debian package, downloading and unpacking the package into cacheDir unless it is there. path has no
// slash at its beginning. The error wraps os.ErrNotExist where the package has no such file. Safe for concurrent use, as Fetch is.
func File(ctx context.Context, cacheDir, pkg, path string) ([]byte, error) {
	if !filepath.IsLocal(path) {
		return nil, fmt.Errorf("fetching %q of %q: that is no file of a Debian package", path, pkg)
	}
	root, err := tree(ctx, cacheDir, pkg)
	if err != nil {
		return nil, err
	}
	for _, base := range []string{"", "usr"} { // newer packages have all below usr
		raw, err := os.ReadFile(filepath.Join(root, base, path))
		if !errors.Is(err, os.ErrNotExist) {
			return raw, err
		}
	}
	return nil, fmt.Errorf("package %s has no file %s: %w", pkg, path, os.ErrNotExist)
}

// Glob returns the paths of a package's files that fit a pattern of path.Match, sorted, for File.
func Glob(ctx context.Context, cacheDir, pkg, pattern string) ([]string, error) {
	root, err := tree(ctx, cacheDir, pkg)
	if err != nil {
		return nil, err
	}
	return fs.Glob(os.DirFS(root), pattern)
}

// tree is the folder of an unpacked package that is no kernel.
func tree(ctx context.Context, cacheDir, pkg string) (string, error) {
	if !packageName.MatchString(pkg) {
		return "", fmt.Errorf("fetching %q: that is no name of a Debian package", pkg)
	}
	cacheDir, err := filepath.Abs(cacheDir)
	if err != nil {
		return "", fmt.Errorf("fetching %s: %w", pkg, err)
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return "", fmt.Errorf("fetching %s: %w", pkg, err)
	}
	unlock, err := filelock.Hold(ctx, filepath.Join(cacheDir, ".lock"))
	if err != nil {
		return "", fmt.Errorf("fetching %s: %w", pkg, err)
	}
	defer unlock()
	root := folder(cacheDir, pkg)
	if _, err := os.Stat(root); errors.Is(err, os.ErrNotExist) {
		same := func(context.Context, string, []string) (string, error) { return pkg, nil }
		if err := unpack(ctx, cacheDir, root, pkg, same); err != nil {
			return "", fmt.Errorf("fetching %s: %w", pkg, err)
		}
	}
	return root, nil
}

// unpack fills root by way of a scratch folder beside it, so that a broken
// download leaves nothing that looks like a package.
func unpack(ctx context.Context, cacheDir, root, pkg string, resolve resolver) error {
	options, err := aptOptions(cacheDir, pkg)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(cacheDir, ".unpack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)

	if err := download(ctx, scratch, pkg, options, resolve); err != nil {
		// A machine whose package lists are empty or old knows no such package yet.
		if _, uerr := run(ctx, scratch, "apt-get", append([]string{"-q", "update"}, options...)...); uerr != nil {
			return errors.Join(err, uerr)
		}
		if err := download(ctx, scratch, pkg, options, resolve); err != nil {
			return err
		}
	}
	debs, err := filepath.Glob(filepath.Join(scratch, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("apt-get download %s left %d packages, want 1", pkg, len(debs))
	}
	tree := filepath.Join(scratch, "tree")
	if _, err := run(ctx, scratch, "dpkg", "-x", debs[0], tree); err != nil {
		return err
	}
	// MkdirTemp and dpkg follow the caller's umask; readers may be other users.
	if err := os.Chmod(tree, 0o755); err != nil {
		return err
	}
	return os.Rename(tree, root)
}

// download brings the package that pkg resolves to into a folder.
func download(ctx context.Context, scratch, pkg string, options []string, resolve resolver) error {
	real, err := resolve(ctx, pkg, options)
	if err != nil {
		return err
	}
	// The sandbox user cannot write here; root may, and apt checks signatures
	// of the lists either way.
	_, err = run(ctx, scratch, "apt-get", append([]string{"-q", "-o", "APT::Sandbox::User=root", "download", real}, options...)...)
	return err
}

// resolver finds the package that holds the files of another, with options of apt.
type resolver func(ctx context.Context, pkg string, options []string) (string, error)

// folder is where a package is unpacked.
func folder(cacheDir, pkg string) string {
	return filepath.Join(cacheDir, strings.ReplaceAll(pkg, ":", "_"))
}

// aptOptions make apt look for packages of another architecture, in lists of its own below cacheDir: those of this machine stay as they
// are. For packages without an architecture there are none.
func aptOptions(cacheDir, pkg string) ([]string, error) {
	_, arch, foreign := strings.Cut(pkg, ":")
	if !foreign {
		return nil, nil
	}
	own := filepath.Join(cacheDir, "apt-"+arch)
	for _, dir := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(own, dir), 0o755); err != nil {
			return nil, err
		}
	}
	return []string{"-o", "APT::Architecture=" + arch, "-o", "APT::Architectures=" + arch, "-o", "Dir::State::Lists=" + filepath.Join(own, "lists"),
		"-o", "Dir::State::status=/dev/null", "-o", "Dir::Cache=" + filepath.Join(own, "cache"), "-o", "APT::Sandbox::User=root"}, nil
}

// resolve follows a meta package to the kernel package it depends on.
func resolve(ctx context.Context, pkg string, options []string) (string, error) {
	if realKernel.MatchString(pkg) {
		return pkg, nil
	}
	out, err := run(ctx, "", "apt-cache", append([]string{"depends", "--important", pkg}, options...)...)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: ")
		if ok && realKernel.MatchString(name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("package %s depends on no linux-image-<version> package (apt-cache depends %s)", pkg, pkg)
}

// open describes the kernel unpacked at root.
func open(root string) (Kernel, error) {
	images, err := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	if err != nil || len(images) == 0 {
		return Kernel{}, fmt.Errorf("no boot/vmlinuz-* in %s; delete that folder to fetch it again", root)
	}
	sort.Strings(images)
	image := images[len(images)-1]
	version := strings.TrimPrefix(filepath.Base(image), "vmlinuz-")
	k := Kernel{Package: "linux-image-" + version, Version: version, Image: image}
	for _, base := range []string{"lib/modules", "usr/lib/modules"} {
		dir := filepath.Join(root, base, version)
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			k.ModulesDir = dir
			return k, nil
		}
	}
	return Kernel{}, fmt.Errorf("no modules of %s in %s; delete that folder to fetch it again", version, root)
}

// run returns a program's standard output; its error carries what it complained.
func run(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.Bytes(), nil
}
