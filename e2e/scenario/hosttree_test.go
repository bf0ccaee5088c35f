package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/initramfs"
)

// tree is an archive for a ramdisk with programs of this host, which Debian's packages have, and the libraries that they need.
type tree struct {
	*initramfs.Writer
	out   bytes.Buffer
	there map[string]bool // paths
}

// newTree begins an archive with busybox, which a script installs under its other names.
func newTree(ctx context.Context, kernels string) (*tree, error) {
	t := &tree{there: map[string]bool{}}
	t.Writer = initramfs.NewWriter(&t.out)
	shell, err := debkernel.File(ctx, kernels, "busybox-static", "bin/busybox")
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{"dev", "proc", "root", "run", "sys", "tmp"} {
		if err := t.AddDir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return t, errors.Join(t.AddDevice("dev/console", initramfs.CharDevice, 0o600, 5, 1), t.AddFile("bin/busybox", 0o755, shell))
}

// programs adds programs and shared objects, by their paths, and the libraries that these need.
func (t *tree) programs(ctx context.Context, paths ...string) error {
	needs, err := exec.CommandContext(ctx, "ldd", paths...).Output()
	if err != nil {
		return fmt.Errorf("list the libraries of %v: %w", paths, err)
	}
	for line := range strings.Lines(string(needs)) {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/") && !strings.HasSuffix(word, ":") {
				paths = append(paths, word)
				break
			}
		}
	}
	for _, path := range paths {
		if err := t.file(path); err != nil {
			return err
		}
	}
	return nil
}

// file adds a file of this host at its own path.
func (t *tree) file(path string) error {
	if t.there[path] {
		return nil
	}
	t.there[path] = true
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return t.AddFile(path, 0o755, content)
}

// python adds Debian's Python with its own modules, and none for tests, windows and compilers.
func (t *tree) python(ctx context.Context) error {
	const name = "/usr/bin/python3"
	program, err := filepath.EvalSymlinks(name)
	if err != nil {
		return fmt.Errorf("%w (Debian's package python3 has it)", err)
	}
	objects := []string{program}
	modules := filepath.Join("/usr/lib", filepath.Base(program))
	err = filepath.WalkDir(modules, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			switch d.Name() {
			case "__pycache__", "test", "tests", "tkinter", "idlelib", "lib2to3", "ensurepip", "pydoc_data", "turtledemo":
				return fs.SkipDir
			}
			if strings.HasPrefix(d.Name(), "config-") {
				return fs.SkipDir
			}
		case !d.Type().IsRegular():
		case strings.HasSuffix(path, ".so"):
			objects = append(objects, path)
		default:
			return t.file(path)
		}
		return nil
	})
	return errors.Join(err, t.AddSymlink(name, program), t.programs(ctx, objects...))
}

// packed ends the archive and compresses it.
func (t *tree) packed() ([]byte, error) {
	if err := t.Close(); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := initramfs.Compress(&out, initramfs.Zstd)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(t.out.Bytes())
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// modulesOf adds modules of a kernel, and a list of them in the order in which they are loaded.
func (t *tree) modulesOf(kernel debkernel.Kernel, names ...string) error {
	modules, err := kernel.Modules(names...)
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, m := range modules {
		if err := t.AddFile("lib/"+m.Name+".ko", 0o644, m.Data); err != nil {
			return err
		}
		fmt.Fprintf(&list, "/lib/%s.ko\n", m.Name)
	}
	return t.AddFile("modules.list", 0o644, []byte(list.String()))
}
