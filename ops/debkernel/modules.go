package debkernel

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// maxFile bounds an unpacked module or firmware: the largest of Debian's are below 20 MiB.
const maxFile = 64 << 20

// ModuleFile is one loadable module.
type ModuleFile struct {
	// Name is the module's name as lsmod prints it, underscores throughout.
	Name string
	// Path is the file on this machine, possibly compressed.
	Path string
	// Target is where the file belongs below /lib/modules/<version>, without a
	// compression suffix: kernel/drivers/virtio/virtio.ko.
	Target string
	// Data is the module, decompressed.
	Data []byte
	// Firmware are the files below /lib/firmware that the driver may ask for, as modinfo prints them. One may be a pattern of path.Match.
	Firmware []string
}

// Modules returns the named modules and everything they depend on, each once,
// dependencies first: loading them in this order with finit_module works. Names
// may be spelled with - or _. A module compiled into the kernel is left out; one
// that the kernel does not have is an error.
func (k Kernel) Modules(names ...string) ([]ModuleFile, error) {
	files, err := k.index()
	if err != nil {
		return nil, err
	}
	builtin, err := k.builtin()
	if err != nil {
		return nil, err
	}
	var out []ModuleFile
	done := map[string]bool{}
	var add func(name, wantedBy string, soft bool) error
	add = func(name, wantedBy string, soft bool) error {
		name = canonical(name)
		if done[name] {
			return nil
		}
		// Marked before the descent, so that circular soft dependencies end.
		done[name] = true
		path, ok := files[name]
		if !ok {
			if builtin[name] || soft {
				return nil
			}
			return fmt.Errorf("kernel %s has no module %s (wanted by %s)", k.Version, name, wantedBy)
		}
		data, err := read(path)
		if err != nil {
			return fmt.Errorf("reading module %s: %w", path, err)
		}
		info, err := infoOf(data)
		if err != nil {
			return fmt.Errorf("reading module %s: %w", path, err)
		}
		for _, d := range info.hard {
			if err := add(d, name, false); err != nil {
				return err
			}
		}
		for _, d := range info.pre {
			module, err := k.provider(d, files)
			if err != nil {
				return err
			}
			if err := add(module, name, true); err != nil {
				return err
			}
		}
		rel, err := filepath.Rel(k.ModulesDir, path)
		if err != nil {
			return err
		}
		out = append(out, ModuleFile{Name: name, Path: path, Target: plain(rel), Data: data, Firmware: info.firmware})
		return nil
	}
	for _, n := range names {
		if err := add(n, "the caller", false); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// index maps each module's name to its file.
func (k Kernel) index() (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(k.ModulesDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := plain(d.Name()); d.Type().IsRegular() && strings.HasSuffix(base, ".ko") {
			files[canonical(strings.TrimSuffix(base, ".ko"))] = path
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing modules of kernel %s: %w", k.Version, err)
	}
	return files, nil
}

// provider is the module that a soft dependency stands for: it may name a cipher or checksum instead, as crc32c. Nothing on the machine
// looks for modules by such names, as modprobe does elsewhere. Those outside kernel/crypto need a feature of the processor.
func (k Kernel) provider(name string, files map[string]string) (string, error) {
	if _, is := files[canonical(name)]; is {
		return name, nil
	}
	folder := filepath.Join(k.ModulesDir, "kernel", "crypto") + string(filepath.Separator)
	for _, module := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(files[module], folder) {
			continue
		}
		data, err := read(files[module])
		if err != nil {
			return "", fmt.Errorf("reading module %s: %w", files[module], err)
		}
		info, err := infoOf(data)
		if err != nil {
			return "", fmt.Errorf("reading module %s: %w", files[module], err)
		}
		if slices.Contains(info.aliases, name) {
			return module, nil
		}
	}
	return name, nil
}

// builtin is the set of modules compiled into the kernel.
func (k Kernel) builtin() (map[string]bool, error) {
	data, err := os.ReadFile(filepath.Join(k.ModulesDir, "modules.builtin"))
	if err != nil {
		return nil, fmt.Errorf("listing built-in modules of kernel %s: %w", k.Version, err)
	}
	set := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		set[canonical(strings.TrimSuffix(filepath.Base(strings.TrimSpace(line)), ".ko"))] = true
	}
	return set, nil
}

// moduleInfo is what a module tells of itself.
type moduleInfo struct {
	hard, pre []string // modules: those that it needs, and those to be loaded before it if they are there
	firmware  []string
	aliases   []string
}

// infoOf reads a module's .modinfo: NUL-separated key=value strings, with
// "depends" a comma-separated list and "softdep" the words after "pre:".
func infoOf(module []byte) (m moduleInfo, err error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return m, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return m, fmt.Errorf("no .modinfo section: not a kernel module")
	}
	info, err := section.Data()
	if err != nil {
		return m, err
	}
	for entry := range strings.SplitSeq(string(info), "\x00") {
		key, value, _ := strings.Cut(entry, "=")
		switch key {
		case "alias":
			m.aliases = append(m.aliases, value)
		case "firmware":
			m.firmware = append(m.firmware, value)
		case "depends":
			for d := range strings.SplitSeq(value, ",") {
				if d != "" {
					m.hard = append(m.hard, d)
				}
			}
		case "softdep":
			before := false
			for word := range strings.FieldsSeq(value) {
				switch {
				case strings.HasSuffix(word, ":"):
					before = word == "pre:"
				case before:
					m.pre = append(m.pre, word)
				}
			}
		}
	}
	return m, nil
}

// read returns a module's bytes, decompressed by the suffix of its name.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return decompressed(f, path)
}

// decompressed reads a file to its end, decompressed by the suffix of its name.
func decompressed(f io.Reader, name string) (data []byte, err error) {
	switch filepath.Ext(name) {
	case ".xz":
		if f, err = xz.NewReader(f); err != nil {
			return nil, err
		}
	case ".zst":
		z, err := zstd.NewReader(f)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		f = z
	}
	data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	return data, err
}

func plain(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path, ".xz"), ".zst")
}

func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }
