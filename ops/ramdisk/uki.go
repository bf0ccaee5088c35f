package ramdisk

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/uki"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// The stubs are the program in a unified kernel image that starts its kernel.
const (
	stubPackage = "systemd-boot-efi"
	stubFile    = "lib/systemd/boot/efi/linuxx64.efi.stub"
	stubARM64   = "lib/systemd/boot/efi/linuxaa64.efi.stub"
)

// unify makes one UEFI program of a kernel and its initramfs.
func unify(ctx context.Context, o Options, r *Result, kernel, archive []byte) error {
	file, params := stubFile, DefaultParams
	if o.Arch == ARM64 {
		file, params = stubARM64, defaultARM64
	}
	stub, err := debkernel.File(ctx, o.CacheDir, packageOf(stubPackage, o.Arch), file)
	if err != nil {
		return fmt.Errorf("building the ramdisk as one program: %w", err)
	}
	if o.UKI.Params != "" {
		params = o.UKI.Params
	}
	at := agentapi.BootServerDHCP
	if len(o.UKI.BootServers) > 0 {
		at = strings.Join(o.UKI.BootServers, ",")
	}
	line := params + " " + agentapi.ParamBootServer + "=" + at
	if o.UKI.Fingerprint != "" {
		line += " " + agentapi.ParamAPIFingerprint + "=" + o.UKI.Fingerprint
	}
	program, err := uki.Build(uki.Parts{Stub: stub, Kernel: kernel, Initramfs: archive, CommandLine: line,
		OSRelease: "ID=ironyard\nNAME=\"Ironyard's ramdisk\"\nPRETTY_NAME=\"Ironyard's ramdisk, Linux " + r.KernelVersion + "\"\nVERSION_ID=" + r.KernelVersion + "\n"})
	if err != nil {
		return fmt.Errorf("building the ramdisk as one program: %w", err)
	}
	if o.UKI.Signer != nil {
		if program, err = o.UKI.Signer.Sign(program); err != nil {
			return fmt.Errorf("building the ramdisk as one program: %w", err)
		}
	}
	name := UKIName
	if o.Rescue {
		name = RescueUKIName
	}
	r.UKI, r.UKISHA256, r.UKIBytes = filepath.Join(o.OutDir, named(name, o.Arch)), sum(program), int64(len(program))
	return write(r.UKI, program)
}
