package deploy

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/agent/iscsitarget"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// What firmware takes as a secret: OVMF and iLOs 12 to 16 characters. A longer one serves iPXE.
const minVolumeSecret = 12

// ExportVolume makes a disk a volume of another machine, which is named in args, until the target ends: with the ramdisk, or with the next
// command that has to do with disks. node is the machine's own UUID, and asker the address of who gave the command.
func (d *Deployer) ExportVolume(ctx context.Context, rules hints.Rules, node string, args agentapi.ExportVolumeArgs, asker netip.Addr) (agentapi.ExportedVolume, error) {
	var none agentapi.ExportedVolume
	if d.Target == nil {
		return none, &ParamError{"this agent does not run in a ramdisk, so it exports no disk"}
	}
	if len(args.Secret) < minVolumeSecret {
		return none, &ParamError{fmt.Sprintf("auth_password has %d characters: give %d to 16, which firmware takes", len(args.Secret), minVolumeSecret)}
	}
	switch mutual := args.TargetUser != "" || args.TargetSecret != ""; {
	case mutual && (args.TargetUser == "" || len(args.TargetSecret) < minVolumeSecret):
		return none, &ParamError{fmt.Sprintf("give both mutual_auth_username and mutual_auth_password, of %d to 16 characters, or neither", minVolumeSecret)}
	case mutual && args.TargetSecret == args.Secret:
		return none, &ParamError{"mutual_auth_password is the same as auth_password: give another"}
	}
	from, err := networks(args.From)
	if err != nil {
		return none, err
	}
	if len(args.Disk) > 0 {
		if rules.Root, err = hints.Parse(args.Disk); err != nil {
			return none, &ParamError{"disk: " + err.Error()}
		}
	}
	if err := d.Target.Stop(); err != nil {
		return none, err
	}
	decision, err := d.decide(ctx, rules, true)
	if err != nil && len(decision.Spared) > 0 {
		spared := decision.Spared[0]
		err = fmt.Errorf("%w; disk %s is not exported: %s", err, spared.Disk.Name, spared.Why)
	}
	if err != nil {
		return none, err
	}
	dev := decision.Image
	held, err := d.hold(ctx, dev) // the target opens the disk by its name, and keeps it from then on
	if err != nil {
		return none, err
	}
	defer held.Close()
	if err := d.unused(ctx, dev); err != nil {
		return none, err
	}
	at, err := localAddress(asker)
	if err != nil {
		return none, err
	}
	d.root, d.exported = agentapi.Disk{}, exported{} // another machine may write to it
	iqn := args.IQN
	if iqn == "" {
		iqn = "iqn.2008-10.org.openstack:" + strings.ToLower(node)
	}
	port, err := d.Target.Start(ctx, dev.Name, iscsitarget.Options{IQN: iqn, Initiator: args.Initiator, Port: cmp.Or(args.Port, agentapi.DefaultISCSIPort),
		From: from, User: args.User, Secret: args.Secret, TargetUser: args.TargetUser, TargetSecret: args.TargetSecret, Lasts: true})
	if err != nil {
		return none, err
	}
	d.Log.Info("a disk is a volume of another machine", "disk", dev.Name, "initiator", args.Initiator)
	return agentapi.ExportedVolume{Portal: net.JoinHostPort(at.String(), strconv.Itoa(port)), IQN: iqn, LUN: iscsitarget.LUN, Disk: dev.Name, Bytes: dev.Size}, nil
}

// networks reads addresses and networks, divided by commas; none: all there are.
func networks(text string) (list []netip.Prefix, err error) {
	if strings.TrimSpace(text) == "" {
		return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		p, err := netip.ParsePrefix(part)
		if err != nil {
			a, notOne := netip.ParseAddr(part)
			if notOne != nil {
				return nil, &ParamError{fmt.Sprintf("from: %.60q is neither an address nor a network", part)}
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 { // the gate sees IPv4 as such
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		list = append(list, p)
	}
	return list, nil
}

// localAddress is this machine's address in the direction of another. Nothing is sent.
func localAddress(to netip.Addr) (netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("look for this machine's address towards %s: %w", to, err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone(""), nil
}
