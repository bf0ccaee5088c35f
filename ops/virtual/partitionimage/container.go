package partitionimage

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/ironyard/ironyard/agent/container/containertest"
)

// What a container has besides the small system.
var (
	//go:embed bootc.sh
	bootcScript []byte
	//go:embed contained.sh
	containedScript []byte
)

// ofInstaller are the programs by which the script in bootc's place lays out a disk.
var ofInstaller = []struct {
	pkg   string
	files []string
}{
	{"fdisk", []string{"usr/sbin/sfdisk"}},
	{"dosfstools", []string{"usr/sbin/mkfs.vfat"}},
	{"coreutils", []string{"usr/bin/cp", "usr/sbin/chroot"}},
}

// Container returns the small system as the one layer of a container that installs itself. What it starts for that is a script in the
// place of bootc. packages is debkernel's cache.
func Container(ctx context.Context, packages string) ([]byte, error) {
	layer, err := containerLayer(ctx, packages)
	if err != nil {
		return nil, fmt.Errorf("building a container of the small system: %w", err)
	}
	return layer, nil
}

func containerLayer(ctx context.Context, packages string) ([]byte, error) {
	s, err := smallSystem(ctx, packages)
	if err != nil {
		return nil, err
	}
	s["usr/bin/bootc"] = content{perm: 0o755, data: bootcScript}
	s["usr/sbin/ironyard-contained"] = content{perm: 0o755, data: containedScript}
	for _, p := range ofInstaller {
		for _, name := range p.files {
			if err := s.add(p.pkg, name); err != nil {
				return nil, err
			}
		}
	}
	if err := s.addLibraries(); err != nil {
		return nil, err
	}
	files := map[string]containertest.File{}
	for name, c := range s {
		files[name] = containertest.File{Perm: c.perm, Link: c.link, Data: c.data}
	}
	return containertest.Layer(files)
}
