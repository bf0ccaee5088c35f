package debkernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// FirmwareFile is a file that a driver may ask the kernel for.
type FirmwareFile struct {
	// Target is where the file belongs below /lib/firmware.
	Target string
	// Data is the file, decompressed.
	Data []byte
}

// Firmware returns the files that modules name, sorted, and the names of the modules of which no file was found. from are folders
// laid out as /lib/firmware, which have a / in their names, and Debian packages. The first that has a file gives it. A link that leads
// out of its folder is refused.
func Firmware(ctx context.Context, cacheDir string, modules []ModuleFile, from []string) (files []FirmwareFile, without []string, err error) {
	var sources []fs.FS
	for _, f := range from {
		dir := f
		if !strings.Contains(f, "/") {
			if dir, err = firmwareOf(ctx, cacheDir, f); err != nil {
				return nil, nil, err
			}
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, nil, fmt.Errorf("firmware %s: %w", f, err)
		}
		defer root.Close()
		sources = append(sources, root.FS())
	}
	found := map[string]bool{}
	for _, m := range modules {
		has := len(m.Firmware) == 0
		for _, pattern := range m.Firmware {
			list, err := firmware(sources, pattern)
			if err != nil {
				return nil, nil, fmt.Errorf("firmware %s of module %s: %w", pattern, m.Name, err)
			}
			for _, f := range list {
				if has = true; !found[f.Target] {
					found[f.Target] = true
					files = append(files, f)
				}
			}
		}
		if !has {
			without = append(without, m.Name)
		}
	}
	slices.SortFunc(files, func(a, b FirmwareFile) int { return strings.Compare(a.Target, b.Target) })
	slices.Sort(without)
	return files, slices.Compact(without), nil
}

// firmwareOf is the folder with the firmware of a package.
func firmwareOf(ctx context.Context, cacheDir, pkg string) (string, error) {
	root, err := tree(ctx, cacheDir, pkg)
	if err != nil {
		return "", fmt.Errorf("%w (Debian has most firmware in its section non-free-firmware)", err)
	}
	for _, base := range []string{"lib/firmware", "usr/lib/firmware"} {
		if dir := filepath.Join(root, base); isDir(dir) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("package %s holds no firmware: it has no folder lib/firmware", pkg)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// firmware are the files of one name or pattern. The kernel finds a file also if it is compressed.
func firmware(sources []fs.FS, pattern string) (list []FirmwareFile, err error) {
	for _, source := range sources {
		for _, end := range []string{"", ".xz", ".zst"} {
			names := []string{pattern + end}
			if strings.ContainsAny(pattern, "*?[") {
				if names, err = fs.Glob(source, names[0]); err != nil {
					return nil, err
				}
			}
			for _, name := range names {
				target := plain(name)
				if slices.ContainsFunc(list, func(f FirmwareFile) bool { return f.Target == target }) {
					continue
				}
				data, err := readFirmware(source, name)
				if err != nil {
					return nil, err
				}
				if data != nil {
					list = append(list, FirmwareFile{Target: path.Clean(target), Data: data})
				}
			}
		}
	}
	return list, nil
}

// readFirmware reads a file; nil: there is none.
func readFirmware(source fs.FS, name string) ([]byte, error) {
	f, err := source.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return nil, err
	}
	data, err := decompressed(f, name)
	if data == nil && err == nil {
		data = []byte{}
	}
	return data, err
}
