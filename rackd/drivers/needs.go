package drivers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/driver/libvirt"
	"github.com/ironyard/ironyard/rackd/driver/wol"
)

// need is what drivers or interfaces want of the host that rackd runs on. Drivers that are not here want nothing of it: rackd speaks to
// their BMCs itself, and keys come with the nodes. Of bootable media and of the network that machines boot from, rackd/daemon tells.
type need struct {
	// of is the hardware type that wants it, or with a kind the interface of that name, of any hardware type.
	kind, of string
	// all: without it no node of the driver works. Else some do, and lacks says which do not.
	all   bool
	lacks func() error
}

// needs are those of all drivers. Secrets, addresses and files that nodes name are no needs of a driver: validate tells of them.
func needs(wake *wol.Driver, o Options) []need {
	return []need{
		{of: "wol", all: true, lacks: wake.Ready},
		{of: "libvirt", lacks: func() error { return lacksSocket(libvirt.Socket) }},
		{kind: "deploy", of: "ansible", all: true, lacks: o.plays.Lacks},
		{kind: "deploy", of: "direct", lacks: func() error { return lacksConverter(exec.LookPath) }},
	}
}

// lacksSocket says which nodes of libvirt cannot be reached.
func lacksSocket(at string) error {
	if _, err := os.Stat(at); err != nil {
		return fmt.Errorf("libvirt's socket %s on this host, for nodes whose libvirt_uri names no other host: %w", at, errors.Unwrap(err))
	}
	return nil
}

// lacksConverter says which images cannot be written, as rackd/diskimage has it.
func lacksConverter(look func(string) (string, error)) error {
	var missing []error
	for _, p := range []struct{ program, in string }{{"qemu-img", "qemu-utils"}, {"prlimit", "util-linux"}} {
		if _, err := look(p.program); err != nil {
			missing = append(missing, fmt.Errorf("%s (Debian package %s), by which images that are neither raw nor qcow2 are converted", p.program, p.in))
		}
	}
	return errors.Join(missing...)
}

// tell tells the log, once for each, what is missing for the types that are enabled. What every node of a driver needs is a warning.
func tell(o Options, types []driver.Type, list []need) {
	if o.Log == nil {
		return
	}
	for _, n := range list {
		if !slices.ContainsFunc(types, n.isOf) {
			continue
		}
		err := n.lacks()
		switch {
		case err == nil:
		case n.kind != "" && n.all:
			o.Log.Info("an interface lacks what it needs; nodes that use it will fail until it is there", n.kind, n.of, "lacks", err)
		case n.kind != "":
			o.Log.Info("an interface lacks what some nodes need", n.kind, n.of, "lacks", err)
		case n.all:
			o.Log.Warn("a driver lacks what it needs; its nodes will fail until it is there", "driver", n.of, "lacks", err)
		default:
			o.Log.Info("a driver lacks what some of its nodes need", "driver", n.of, "lacks", err)
		}
	}
}

// isOf reports whether the hardware type has the need. Fake hardware writes no image.
func (n need) isOf(t driver.Type) bool {
	if t.Name == fake.TypeName {
		return false
	}
	if n.kind == "" {
		return t.Name == n.of
	}
	return slices.ContainsFunc(t.Interfaces[n.kind], func(i driver.Named) bool { return i.Name == n.of })
}
