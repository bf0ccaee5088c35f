package command

import (
	"context"
	"fmt"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/ramdisk"
)

type ramdiskCommand struct {
	Build ramdiskBuild `cmd:"" help:"Build kernel and initramfs from a Debian kernel package and the agent."`
}

type ramdiskBuild struct {
	Out    string `arg:"" help:"Folder for kernel and ramdisk." type:"path"`
	Kernel string `help:"Kernel flavour. cloud: for virtual machines; generic: with the drivers of real machines." enum:"cloud,generic" default:"generic"`
	Rescue bool   `help:"Build the ramdisk for rescues too: rackd --rescue-ramdisk. It has a shell (busybox) and file systems."`
	Cache  string `help:"Folder for downloads." default:".cache" type:"path"`
}

func (c ramdiskBuild) Run(ctx context.Context) error {
	pkg := debkernel.Generic
	if c.Kernel == "cloud" {
		pkg = debkernel.Cloud
	}
	r, err := buildRamdisk(ctx, pkg, c.Cache, c.Out, false)
	if err != nil {
		return err
	}
	fmt.Printf("kernel   %s\nramdisk  %s\n", r.Kernel, r.Initramfs)
	if !c.Rescue {
		return nil
	}
	if r, err = buildRamdisk(ctx, pkg, c.Cache, c.Out, true); err != nil {
		return err
	}
	fmt.Printf("rescue   %s\n", r.Initramfs)
	return nil
}

func buildRamdisk(ctx context.Context, pkg, cache, out string, rescue bool) (ramdisk.Result, error) {
	agent, err := beside("agent")
	if err != nil {
		return ramdisk.Result{}, err
	}
	return ramdisk.Build(ctx, ramdisk.Options{Agent: agent, KernelPackage: pkg, CacheDir: cache, OutDir: out, Rescue: rescue})
}
