package command

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/ramdisk"
	"github.com/ironyard/ironyard/ops/uki"
	"github.com/ironyard/ironyard/protocol/secretfile"
)

type ramdiskCommand struct {
	Build ramdiskBuild `cmd:"" help:"Build kernel and initramfs from a Debian kernel package and the agent."`
}

type ramdiskBuild struct {
	Out         string   `arg:"" help:"Folder for kernel and ramdisk." type:"path"`
	Arch        string   `help:"Architecture of the machines. The files of arm64 have it in their names." enum:"amd64,arm64" default:"amd64"`
	Kernel      string   `help:"Kernel flavour. cloud: for virtual machines; generic: with the drivers of real machines." enum:"cloud,generic" default:"generic"`
	Firmware    []string `help:"Firmware of devices, which drivers such as bnx2x, qede and cxgb4 load: a folder like /lib/firmware, or a Debian package (most are in Debian's section non-free-firmware). Only what the ramdisk's drivers name is taken. Give it again for more. Default: none." placeholder:"FOLDER|PACKAGE"`
	Podman      bool     `help:"Add podman, for the deploy interface bootc: containers that install themselves. Takes memory of each machine that boots the ramdisk."`
	PodmanConf  string   `name:"podman-config" help:"Folder that is laid over podman's /etc/containers: certs.d with authorities of registries, registries.conf.d, policy.json." placeholder:"FOLDER" type:"existingdir"`
	Rescue      bool     `help:"Build the ramdisk for rescues too: rackd --rescue-ramdisk. It has a shell (busybox) and file systems."`
	Cache       string   `help:"Folder for downloads." default:".cache" type:"path"`
	UKI         bool     `name:"uki" help:"Make one UEFI program of kernel, ramdisk and command line besides: rackd --uki. Firmware starts it without a boot program."`
	UKIParams   string   `name:"uki-params" help:"Kernel parameters in the program, instead of those for its consoles." placeholder:"WORDS"`
	BootServer  []string `name:"boot-server" help:"Web servers of rackds (http), for the program's agent to ask about its boot. Default: DHCP tells it one." placeholder:"URL"`
	Fingerprint string   `name:"api-fingerprint" help:"SHA-256 of the certificate that the rackds show to agents, which 'key fingerprint' prints. The program's agent then believes no other, whatever it is told. Default: what it is told." placeholder:"HEX"`
	Sign        string   `help:"File with the RSA key (PEM) that signs the program for UEFI secure boot." placeholder:"KEY" type:"existingfile"`
	Cert        string   `help:"File with the certificate of that key (PEM), which machines have in db." placeholder:"CERT" type:"existingfile"`
}

func (c ramdiskBuild) Run(ctx context.Context, log *slog.Logger) error {
	// What the flags say is judged before anything is fetched or built.
	program, err := c.program(log)
	if err != nil {
		return err
	}
	if c.PodmanConf != "" && !c.Podman {
		return errors.New("--podman-config has settings of podman: give --podman too")
	}
	agent := "" // of another architecture: the go command builds it, in the project's folder
	if c.Arch == ramdisk.AMD64 {
		if agent, err = beside("agent"); err != nil {
			return err
		}
	}
	return c.build(ctx, agent, program)
}

// build builds all that the flags ask for, and prints where it is.
func (c ramdiskBuild) build(ctx context.Context, agent string, program *ramdisk.UKI) error {
	pkg := map[string]string{"cloud": debkernel.Cloud, "generic": debkernel.Generic}[c.Kernel]
	if c.Arch == ramdisk.ARM64 {
		pkg = map[string]string{"cloud": debkernel.CloudARM64, "generic": debkernel.GenericARM64}[c.Kernel]
	}
	o := ramdisk.Options{Agent: agent, Arch: c.Arch, KernelPackage: pkg, CacheDir: c.Cache, OutDir: c.Out, Firmware: c.Firmware, UKI: program}
	if c.Podman {
		o.Podman = &ramdisk.Podman{Config: c.PodmanConf}
	}
	r, err := ramdisk.Build(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("kernel   %s\nramdisk  %s\n", r.Kernel, r.Initramfs)
	if r.FirmwareFiles > 0 {
		fmt.Printf("firmware %d files, %.1f MB\n", r.FirmwareFiles, float64(r.FirmwareBytes)/1e6)
	}
	if r.PodmanBytes > 0 {
		fmt.Printf("podman   %.1f MB unpacked\n", float64(r.PodmanBytes)/1e6)
	}
	if len(r.WithoutFirmware) > 0 {
		fmt.Printf("Drivers that may need firmware, and have none here (--firmware): %s\n", strings.Join(r.WithoutFirmware, ", "))
	}
	if r.UKI != "" {
		fmt.Printf("uki      %s\n", r.UKI)
	}
	if !c.Rescue {
		return nil
	}
	o.Rescue, o.Podman = true, nil // a rescue deploys nothing
	if r, err = ramdisk.Build(ctx, o); err != nil {
		return err
	}
	fmt.Printf("rescue   %s\n", r.Initramfs)
	if r.UKI != "" {
		fmt.Printf("uki      %s\n", r.UKI)
	}
	return nil
}

// program is what the UEFI program holds besides kernel and ramdisk; nil: none is asked for.
func (c ramdiskBuild) program(log *slog.Logger) (*ramdisk.UKI, error) {
	if !c.UKI {
		if c.UKIParams != "" || len(c.BootServer) > 0 || c.Fingerprint != "" || c.Sign != "" || c.Cert != "" {
			return nil, errors.New("--uki-params, --boot-server, --api-fingerprint, --sign and --cert are of the UEFI program: give --uki too")
		}
		return nil, nil
	}
	p := &ramdisk.UKI{Params: c.UKIParams}
	for _, text := range c.BootServer {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || strings.ContainsAny(text, ", ") {
			return nil, fmt.Errorf("--boot-server %q: give http://HOST[:PORT], where a rackd serves machines", text)
		}
		p.BootServers = append(p.BootServers, strings.TrimRight(text, "/"))
	}
	if c.Fingerprint != "" {
		p.Fingerprint = strings.ToLower(strings.ReplaceAll(c.Fingerprint, ":", ""))
		if raw, err := hex.DecodeString(p.Fingerprint); err != nil || len(raw) != 32 {
			return nil, errors.New("--api-fingerprint: give the 64 hex digits of a SHA-256")
		}
	}
	if (c.Sign == "") != (c.Cert == "") {
		return nil, errors.New("--sign and --cert belong together: give both or neither")
	}
	if c.Sign == "" {
		return p, nil
	}
	key, err := secretfile.Read(c.Sign, log)
	if err != nil {
		return nil, fmt.Errorf("--sign: %w", err)
	}
	certificate, err := os.ReadFile(c.Cert)
	if err != nil {
		return nil, fmt.Errorf("--cert: %w", err)
	}
	if p.Signer, err = uki.NewSigner(key, certificate); err != nil {
		return nil, fmt.Errorf("--sign %s with --cert %s: %w", c.Sign, c.Cert, err)
	}
	return p, nil
}

// buildRamdisk builds kernel and ramdisk of a virtual rack.
func buildRamdisk(ctx context.Context, pkg, cache, out string) (ramdisk.Result, error) {
	agent, err := beside("agent")
	if err != nil {
		return ramdisk.Result{}, err
	}
	return ramdisk.Build(ctx, ramdisk.Options{Agent: agent, KernelPackage: pkg, CacheDir: cache, OutDir: out})
}
