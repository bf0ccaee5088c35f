package ramdisk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/initramfs"
	"github.com/ironyard/ironyard/ops/uki"
)

// Names of the files in Options.OutDir.
const (
	KernelName    = "ironyard.kernel"
	InitramfsName = "ironyard.initramfs"
	RescueName    = "ironyard-rescue.initramfs"
	UKIName       = "ironyard.efi"
	RescueUKIName = "ironyard-rescue.efi"
)

// Architectures that there are ramdisks for, as Debian and Go name them. Names of files of ARM64 have it before their end.
const (
	AMD64 = "amd64"
	ARM64 = "arm64"
)

// named is the name of a file of an architecture.
func named(name, arch string) string {
	if arch == AMD64 {
		return name
	}
	base, end, _ := strings.Cut(name, ".")
	return base + "-" + arch + "." + end
}

// DefaultParams are the kernel parameters of a unified kernel image that names no others, and those of rackd: its consoles, and no
// tests of the ciphers that the kernel has itself.
const DefaultParams = "console=tty0 console=ttyS0,115200 cryptomgr.notests"

// defaultARM64 is DefaultParams of arm64.
const defaultARM64 = "console=tty0 console=ttyAMA0,115200 cryptomgr.notests"

// Options say what to build.
type Options struct {
	// Agent is the path of the static agent binary; empty: it is built with the go
	// command from Source.
	Agent string
	// Source is a folder inside the project's module; empty: the working folder.
	Source string
	// Arch is the machines' architecture; empty: AMD64.
	Arch string
	// KernelPackage is a Debian package of that architecture; empty: debkernel.Cloud. Real machines need
	// debkernel.Generic.
	KernelPackage string
	// Modules are the kernel modules to carry; nil: Modules(KernelPackage).
	Modules []string
	// Firmware of devices is taken from these folders and Debian packages, as debkernel.Firmware has them: what the drivers among
	// Modules may ask for, and no more.
	Firmware []string
	// Podman makes a ramdisk that runs containers which install themselves; nil: it runs none.
	Podman *Podman
	// Rescue makes an initramfs for rescues, RescueName: it has a shell and the kernel's file systems besides.
	Rescue bool
	// UKI makes one UEFI program of kernel and initramfs besides; nil: none.
	UKI *UKI
	// OutDir receives the files.
	OutDir string
	// CacheDir keeps unpacked kernel packages.
	CacheDir string
	// Compression of the initramfs; empty: zstd.
	Compression initramfs.Compression
}

// UKI is what a unified kernel image holds besides kernel and initramfs. A signature covers all of it.
type UKI struct {
	// Params of the kernel, in front of those by which the agent finds its rackd; empty: DefaultParams.
	Params string
	// BootServers are base URLs of rackds' web servers, for the agent to ask; empty: DHCP tells it one.
	BootServers []string
	// Fingerprint is the hex SHA-256 of the certificate that the rackds show to agents; empty: the agent believes what it is told
	// when it asks.
	Fingerprint string
	// Signer signs the program; nil: it stays unsigned.
	Signer *uki.Signer
}

// Result is what was built.
type Result struct {
	Kernel          string // path
	KernelVersion   string
	KernelSHA256    string
	KernelBytes     int64
	Initramfs       string // path
	InitramfsSHA256 string
	InitramfsBytes  int64
	Modules         int
	FirmwareFiles   int
	FirmwareBytes   int64
	WithoutFirmware []string // modules that name firmware, of which the ramdisk holds none
	PodmanBytes     int64    // of podman and its libraries, unpacked in the machine's memory; 0: the ramdisk has none
	UKI             string   // path; empty: none was asked for
	UKISHA256       string
	UKIBytes        int64
}

// Build builds kernel and initramfs.
func Build(ctx context.Context, o Options) (Result, error) {
	switch o.Arch {
	case "":
		o.Arch = AMD64
	case AMD64, ARM64:
	default:
		return Result{}, fmt.Errorf("building the ramdisk: there is none for architecture %q: give %s or %s", o.Arch, AMD64, ARM64)
	}
	if o.KernelPackage == "" {
		o.KernelPackage = map[string]string{AMD64: debkernel.Cloud, ARM64: debkernel.CloudARM64}[o.Arch]
	}
	if o.Modules == nil {
		o.Modules = Modules(o.KernelPackage)
	}
	name := InitramfsName
	if o.Rescue {
		name, o.Modules = RescueName, append(append([]string(nil), o.Modules...), fileSystems...)
	}
	if o.Compression == "" {
		o.Compression = initramfs.Zstd
	}
	if o.OutDir == "" || o.CacheDir == "" {
		return Result{}, errors.New("building the ramdisk: an output and a cache folder are needed")
	}
	if err := os.MkdirAll(o.OutDir, 0o755); err != nil {
		return Result{}, fmt.Errorf("building the ramdisk: %w", err)
	}
	agent, err := agentBinary(ctx, o)
	if err != nil {
		return Result{}, fmt.Errorf("building the ramdisk: %w", err)
	}
	kernel, err := debkernel.Fetch(ctx, o.CacheDir, o.KernelPackage)
	if err != nil {
		return Result{}, fmt.Errorf("building the ramdisk: %w", err)
	}
	modules, err := kernel.Modules(o.Modules...)
	if err != nil {
		return Result{}, fmt.Errorf("building the ramdisk: %w", err)
	}
	target, err := kernel.Modules(slices.Concat(o.Modules, digests[o.Arch], iscsiTarget)...)
	if err != nil {
		return Result{}, fmt.Errorf("building the ramdisk: %w", err)
	}
	target = slices.DeleteFunc(target, func(m debkernel.ModuleFile) bool {
		return slices.ContainsFunc(modules, func(b debkernel.ModuleFile) bool { return b.Name == m.Name })
	})
	var shell []byte
	if o.Rescue {
		if shell, err = debkernel.File(ctx, o.CacheDir, packageOf(shellPackage, o.Arch), shellFile); err != nil {
			return Result{}, fmt.Errorf("building the ramdisk: %w", err)
		}
	}
	later, err := kernel.Modules(mountable...)
	if err != nil {
		return Result{}, fmt.Errorf("building the ramdisk: %w", err)
	}
	ofLinks, err := kernel.Modules(links...)
	if err != nil {
		return Result{}, fmt.Errorf("building the ramdisk: %w", err)
	}
	firmware, without, err := debkernel.Firmware(ctx, o.CacheDir, modules, o.Firmware)
	if err != nil {
		return Result{}, fmt.Errorf("building the ramdisk: %w", err)
	}
	lists := []moduleList{{"etc/modules.list", modules}, {"etc/modules-iscsi.list", target},
		{"etc/modules-filesystems.list", others(later, modules)}, {"etc/modules-links.list", others(ofLinks, modules)}}
	var containers podmanTree
	if o.Podman != nil {
		ofContainers, err := kernel.Modules(containerModules...)
		if err == nil {
			containers, err = podmanOf(ctx, o.CacheDir, o.Arch, *o.Podman)
		}
		if err != nil {
			return Result{}, fmt.Errorf("building the ramdisk: %w", err)
		}
		lists = append(lists, moduleList{"etc/modules-containers.list", others(ofContainers, modules)})
	}
	archive, err := pack(parts{agent: agent, shell: shell, version: kernel.Version, firmware: firmware, modules: lists, containers: containers}, o.Compression)
	if err != nil {
		return Result{}, fmt.Errorf("building the ramdisk: %w", err)
	}
	image, err := os.ReadFile(kernel.Image)
	if err != nil {
		return Result{}, fmt.Errorf("building the ramdisk: %w", err)
	}
	r := Result{
		Kernel: filepath.Join(o.OutDir, named(KernelName, o.Arch)), KernelVersion: kernel.Version, KernelSHA256: sum(image), KernelBytes: int64(len(image)),
		Initramfs: filepath.Join(o.OutDir, named(name, o.Arch)), InitramfsSHA256: sum(archive), InitramfsBytes: int64(len(archive)), Modules: len(modules) + len(target),
		FirmwareFiles: len(firmware), WithoutFirmware: without, PodmanBytes: containers.bytes(),
	}
	for _, f := range firmware {
		r.FirmwareBytes += int64(len(f.Data))
	}
	if err := write(r.Kernel, image); err != nil {
		return r, err
	}
	if err := write(r.Initramfs, archive); err != nil || o.UKI == nil {
		return r, err
	}
	return r, unify(ctx, o, &r, image, archive)
}

// agentBinary reads the agent, building it first if there is none.
func agentBinary(ctx context.Context, o Options) ([]byte, error) {
	path := o.Agent
	if path == "" {
		dir, err := os.MkdirTemp("", "ironyard-agent-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, "agent")
		if err := compileAgent(ctx, o.Source, o.Arch, path); err != nil {
			return nil, err
		}
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if machine := map[string]elf.Machine{AMD64: elf.EM_X86_64, ARM64: elf.EM_AARCH64}[o.Arch]; o.Agent != "" {
		f, err := elf.NewFile(bytes.NewReader(binary))
		if err != nil {
			return nil, fmt.Errorf("%s is no program: %w", path, err)
		}
		if f.Machine != machine {
			return nil, fmt.Errorf("%s is a program for %s, and the ramdisk is for %s", path, f.Machine, o.Arch)
		}
	}
	// An agent that needs a loader the ramdisk does not have ends in a kernel
	// panic on the machine; better to say so here.
	if bytes.Contains(binary, []byte("/ld-linux-")) && bytes.Contains(binary, []byte("libc.so.6")) {
		return nil, fmt.Errorf("%s is linked dynamically: build it with CGO_ENABLED=0", path)
	}
	return binary, nil
}

// compileAgent builds the static agent binary to path with the go command. source
// is a folder inside the module; empty: the working folder.
func compileAgent(ctx context.Context, source, arch, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", path, "github.com/ironyard/ironyard/agent")
	cmd.Dir = source
	// What a developer has set for other builds must not change these bytes.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the agent: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// The shell of rescues and its commands are one program without libraries.
const (
	shellPackage = "busybox-static"
	shellFile    = "bin/busybox"
)

// packageOf names a package of an architecture, as debkernel does.
func packageOf(name, arch string) string {
	if arch == AMD64 {
		return name
	}
	return name + ":" + arch
}

// others are the modules of a list that are not in another.
func others(list, other []debkernel.ModuleFile) []debkernel.ModuleFile {
	return slices.DeleteFunc(list, func(m debkernel.ModuleFile) bool {
		return slices.ContainsFunc(other, func(o debkernel.ModuleFile) bool { return o.Name == m.Name })
	})
}

// moduleList are modules that the agent loads at one time, in the file with this path.
type moduleList struct {
	path    string
	modules []debkernel.ModuleFile
}

// parts are what an archive is made of. shell and containers may be empty.
type parts struct {
	agent, shell []byte
	version      string // of the kernel
	firmware     []debkernel.FirmwareFile
	modules      []moduleList
	containers   podmanTree
}

// pack writes the archive in memory. Everything has a fixed order.
func pack(p parts, c initramfs.Compression) ([]byte, error) {
	var out bytes.Buffer
	z, err := initramfs.Compress(&out, c)
	if err != nil {
		return nil, err
	}
	w := initramfs.NewWriter(z)
	steps := []func() error{
		// The kernel opens the console for /init before anything is mounted.
		func() error { return w.AddDevice("dev/console", initramfs.CharDevice, 0o600, 5, 1) },
		func() error { return w.AddDevice("dev/null", initramfs.CharDevice, 0o666, 1, 3) },
		func() error { return w.AddFile("init", 0o755, p.agent) },
	}
	for _, dir := range []string{"etc", "proc", "run", "sys", "tmp"} {
		steps = append(steps, func() error { return w.AddDir(dir, 0o755) })
	}
	if len(p.shell) > 0 {
		steps = append(steps, func() error { return w.AddFile(shellFile, 0o755, p.shell) })
		for _, dir := range []string{"mnt", "root"} {
			steps = append(steps, func() error { return w.AddDir(dir, 0o700) })
		}
		// Programs look up who the user is: the only one there is.
		steps = append(steps, func() error { return w.AddFile("etc/passwd", 0o644, []byte("rescue:x:0:0::/root:/bin/sh\n")) },
			func() error { return w.AddFile("etc/group", 0o644, []byte("root:x:0:\n")) })
	}
	for _, f := range p.firmware {
		steps = append(steps, func() error { return w.AddFile("lib/firmware/"+f.Target, 0o644, f.Data) })
	}
	there := map[string]bool{}
	for _, l := range p.modules {
		var list strings.Builder
		for _, m := range l.modules {
			path := "/lib/modules/" + p.version + "/" + m.Target
			list.WriteString(strings.TrimSpace(path+" "+moduleParameters[m.Name]) + "\n")
			if !there[path] { // lists share what their modules need
				there[path] = true
				steps = append(steps, func() error { return w.AddFile(path, 0o644, m.Data) })
			}
		}
		steps = append(steps, func() error { return w.AddFile(l.path, 0o644, []byte(list.String())) })
	}
	steps = append(steps, func() error { return p.containers.write(w) }, w.Close, z.Close)
	for _, do := range steps {
		if err := do(); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// write makes a file appear at once.
func write(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".ramdisk-")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
