package ucs

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/cisco"
)

// classes are the boot devices of a policy.
var classes = []cisco.BootClass{{Device: driver.BootDisk, Class: "lsbootStorage"}, {Device: driver.BootPXE, Class: "lsbootLan"},
	{Device: "cdrom", Class: "lsbootVirtualMedia", Access: "read-only"}}

const ownPolicy = "/boot-policy"

// policy reads the boot policy that the profile follows, with its devices. There may be none.
func (p profile) policy(ctx context.Context) (cisco.Object, error) {
	if p.self.Get("bootPolicyName") == "" {
		if own, found, err := p.Resolve(ctx, p.dn+ownPolicy, true); err != nil || found {
			return own, err
		}
	}
	shared := p.self.Get("operBootPolicyName")
	if shared == "" {
		return cisco.Object{}, nil
	}
	o, _, err := p.Resolve(ctx, shared, true)
	return o, err
}

// SupportedBootDevices are the same for all servers.
func (*Driver) SupportedBootDevices(context.Context, *node.Document) (list []driver.BootDevice, err error) {
	for _, c := range classes {
		list = append(list, c.Device)
	}
	return list, nil
}

// BootDevice reads the first device of the boot policy; empty for one that has no name here, such as a SAN.
func (d *Driver) BootDevice(ctx context.Context, n *node.Document) (found ask.BootDevice, err error) {
	err = d.with(ctx, n, "read the boot device", func(p profile) error {
		policy, err := p.policy(ctx)
		if device := cisco.First(policy, classes); device != "" {
			lasts := true
			found = ask.BootDevice{Device: string(device), Persistent: &lasts}
		}
		return err
	})
	return found, err
}

// SetBootDevice puts a device first in the profile's own boot policy. It counts at the server's next start, and lasts, also where
// it is asked for once.
func (d *Driver) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, _ bool) error {
	if !slices.ContainsFunc(classes, func(c cisco.BootClass) bool { return c.Device == device }) {
		return fmt.Errorf("node %s: Invalid boot device %s specified; a UCS Manager has disk, pxe and cdrom: %w", n.Label(), device, driver.ErrUnsupported)
	}
	return d.with(ctx, n, fmt.Sprintf("set the boot device to %s", device), func(p profile) error {
		policy, err := p.policy(ctx)
		if err != nil || cisco.First(policy, classes) == device {
			return err
		}
		list, found := cisco.Reorder(policy, classes, device)
		if !found {
			added, err := p.newDevice(ctx, device)
			if err != nil {
				return err
			}
			list = append([]cisco.Object{added}, list...)
		}
		if err := p.write(ctx, f, policy.Get("bootMode"), policy, list); err != nil {
			return err
		}
		return p.kept(ctx, device)
	})
}

// newDevice is a device that no policy has yet.
func (p profile) newDevice(ctx context.Context, device driver.BootDevice) (cisco.Object, error) {
	switch device {
	case driver.BootPXE:
		nics, err := p.Children(ctx, p.dn, "vnicEther")
		if err != nil {
			return cisco.Object{}, err
		}
		if len(nics) == 0 {
			return cisco.Object{}, &bmc.Failure{Class: bmc.Invalid, Said: "that the service profile has no vNIC to boot from; give it one"}
		}
		slices.SortStableFunc(nics, func(a, b cisco.Object) int { return a.Order() - b.Order() })
		return cisco.New("lsbootLan", "rn", "lan", "prot", "pxe").With(cisco.New("lsbootLanImagePath", "rn", "path-primary", "type", "primary", "vnicName", nics[0].Get("name"))), nil
	case driver.BootDisk:
		return cisco.New("lsbootStorage", "rn", "storage").With(cisco.New("lsbootLocalStorage", "rn", "local-storage").With(cisco.New("lsbootDefaultLocalImage", "rn", "local-any", "order", "1"))), nil
	}
	return cisco.New("lsbootVirtualMedia", "rn", "read-only-vm", "access", "read-only", "lunId", "0"), nil
}

// write gives the profile a boot policy of its own with those devices, in one request.
func (p profile) write(ctx context.Context, f driver.Fence, mode string, policy cisco.Object, list []cisco.Object) error {
	own := cisco.New("lsbootDef", "rn", "boot-policy", "rebootOnUpdate", "no", "enforceVnicName", "no")
	if strict := policy.Get("enforceVnicName"); strict != "" {
		own = own.Set("enforceVnicName", strict)
	}
	if mode != "" {
		own = own.Set("bootMode", mode)
	}
	next := 1
	for _, o := range list {
		o = numbered(o, &next)
		own.Children = append(own.Children, written(o))
	}
	for _, o := range policy.Children { // settings that are no devices
		if o.Get("order") == "" {
			own.Children = append(own.Children, written(o))
		}
	}
	return p.Configure(ctx, f, cisco.New("lsServer", "dn", p.dn, "bootPolicyName", "").With(own))
}

// numbered numbers a device. Images on disks have numbers of their own, of which the first is that of the device.
func numbered(o cisco.Object, next *int) cisco.Object {
	o = o.Set("order", strconv.Itoa(*next))
	before := *next
	o.Children = images(o.Ordered(), next)
	if *next == before {
		*next++
	}
	return o
}

func images(list []cisco.Object, next *int) []cisco.Object {
	for i, o := range list {
		if o.Get("order") != "" {
			list[i] = o.Set("order", strconv.Itoa(*next))
			*next++
		}
		list[i].Children = images(list[i].Ordered(), next)
	}
	return list
}

// written is an object as a write has it: without what the manager makes of it.
func written(o cisco.Object) cisco.Object {
	var without []string
	if o.Class() != "lsbootLanImagePath" && o.Class() != "lsbootSanCatSanImage" {
		without = append(without, "type")
	}
	if o.Class() != "lsbootVirtualMedia" {
		without = append(without, "access")
	}
	children := make([]cisco.Object, len(o.Children))
	for i, c := range o.Children {
		children[i] = written(c)
	}
	return o.Below(without...).With(children...)
}

// kept reads the policy back.
func (p profile) kept(ctx context.Context, device driver.BootDevice) error {
	self, found, err := p.Resolve(ctx, p.dn, false)
	if err != nil || !found {
		return err
	}
	p.self = self
	policy, err := p.policy(ctx)
	if err != nil {
		return err
	}
	return cisco.Kept(policy, classes, device)
}

// BootMode reads how the server's firmware boots.
func (d *Driver) BootMode(ctx context.Context, n *node.Document) (mode string, err error) {
	err = d.with(ctx, n, "read the boot mode", func(p profile) error {
		policy, err := p.policy(ctx)
		mode = modeOf(policy)
		return err
	})
	return mode, err
}

func modeOf(policy cisco.Object) string {
	if policy.Get("bootMode") == "uefi" {
		return "uefi"
	}
	return "bios"
}

// SetBootMode writes the boot mode of the profile's own boot policy. It counts at the server's next start.
func (d *Driver) SetBootMode(ctx context.Context, f driver.Fence, n *node.Document, mode string) error {
	word := map[string]string{"uefi": "uefi", "bios": "legacy"}[mode]
	if word == "" {
		return fmt.Errorf("node %s: boot mode %q: give uefi or bios: %w", n.Label(), mode, driver.ErrInvalid)
	}
	return d.with(ctx, n, "set the boot mode to "+mode, func(p profile) error {
		policy, err := p.policy(ctx)
		if err != nil || modeOf(policy) == mode {
			return err
		}
		list, _ := cisco.Reorder(policy, classes, cisco.First(policy, classes))
		if err := p.write(ctx, f, word, policy, list); err != nil {
			return err
		}
		self, _, err := p.Resolve(ctx, p.dn, false)
		if err != nil {
			return err
		}
		p.self = self
		if policy, err = p.policy(ctx); err == nil && modeOf(policy) != mode {
			err = &bmc.Failure{Said: "that all is well, and has the boot mode " + modeOf(policy) + " still"}
		}
		return err
	})
}
