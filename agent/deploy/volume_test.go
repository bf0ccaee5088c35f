package deploy

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/agent/iscsitarget"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// A disk becomes another machine's volume as it is, for that machine's name and account, and stays one without a connection.
func TestExportVolume(t *testing.T) {
	d, _, path := fixture(t, nil)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := &plug{}
	d.Target, d.exported = p, exported{id: "one", disk: agentapi.Disk{Name: path}}
	asker := netip.MustParseAddr("127.0.0.1")
	args := agentapi.ExportVolumeArgs{Initiator: "iqn.2026-11.org.example:m", User: "m", Secret: "twelve-or-more"}
	got, err := d.ExportVolume(t.Context(), hints.Rules{MinBytes: 1}, "0F5AB8C4", args, asker)
	want := agentapi.ExportedVolume{Portal: "127.0.0.1:3260", IQN: "iqn.2008-10.org.openstack:0f5ab8c4", LUN: 1, Disk: path, Bytes: size}
	if err != nil || got != want {
		t.Fatalf("%+v, %v; want %+v", got, err, want)
	}
	any := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	o := p.got
	if p.out != path || !o.Lasts || !slices.Equal(o.From, any) || o.Initiator != args.Initiator || o.User != "m" || o.Secret != args.Secret || o.TargetUser != "" || o.Port != 3260 {
		t.Errorf("exported %q as %+v", p.out, o)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the disk was written to (%v)", err)
	}
	var gone *GoneError
	if _, err := d.Finish(t.Context(), agentapi.FinishISCSIParams{Disk: "one"}); !errors.As(err, &gone) || p.out == "" {
		t.Errorf("a write of before is finished on another machine's volume: %v", err)
	}
	args.IQN, args.Port, args.From = "iqn.2026-11.org.example:v", 3261, "10.0.0.7, fd00::/64, ::ffff:10.0.1.0/120, ::ffff:10.0.2.7"
	if got, err = d.ExportVolume(t.Context(), hints.Rules{MinBytes: 1}, "x", args, asker); err != nil || got.IQN != args.IQN || p.ends != 1 {
		t.Errorf("once more: %+v, %v, %d targets ended", got, err, p.ends)
	}
	if p.got.Port != 3261 || !slices.Equal(p.got.From, []netip.Prefix{netip.MustParsePrefix("10.0.0.7/32"), netip.MustParsePrefix("fd00::/64"),
		netip.MustParsePrefix("10.0.1.0/24"), netip.MustParsePrefix("10.0.2.7/32")}) {
		t.Errorf("options %+v", p.got)
	}
	if err := d.StopExport(t.Context(), ""); err != nil || p.out != "" {
		t.Errorf("the end: %v, out %q", err, p.out)
	}
}

// broken is a kernel without iSCSI targets.
type broken struct{ plug }

func (*broken) Start(context.Context, string, iscsitarget.Options) (int, error) {
	return 0, &iscsitarget.Error{Doing: "this ramdisk's kernel has none", Err: errors.New("no configfs")}
}

// What cannot be another machine's volume is refused, and nothing is exported.
func TestVolumesThatAreRefused(t *testing.T) {
	good := agentapi.ExportVolumeArgs{Initiator: "iqn.2026-11.org.example:m", User: "m", Secret: "twelve-or-more"}
	for name, c := range map[string]struct {
		change func(d *Deployer, args *agentapi.ExportVolumeArgs, r *hints.Rules)
		want   string
	}{
		"no ramdisk":               {func(d *Deployer, _ *agentapi.ExportVolumeArgs, _ *hints.Rules) { d.Target = nil }, "does not run in a ramdisk"},
		"a short secret":           {func(_ *Deployer, a *agentapi.ExportVolumeArgs, _ *hints.Rules) { a.Secret = "elevenchars" }, "has 11 characters"},
		"half of the volume's own": {func(_ *Deployer, a *agentapi.ExportVolumeArgs, _ *hints.Rules) { a.TargetUser = "v" }, "mutual_auth_username and mutual_auth_password"},
		"one secret for both": {func(_ *Deployer, a *agentapi.ExportVolumeArgs, _ *hints.Rules) {
			a.TargetUser, a.TargetSecret = "v", a.Secret
		}, "is the same as auth_password"},
		"no network": {func(_ *Deployer, a *agentapi.ExportVolumeArgs, _ *hints.Rules) { a.From = "10.0.0.0/24,rack" }, `"rack" is neither`},
		"no hints": {func(_ *Deployer, a *agentapi.ExportVolumeArgs, _ *hints.Rules) {
			a.Disk = map[string]any{"colour": "red"}
		}, "disk: "},
		"another disk": {func(_ *Deployer, a *agentapi.ExportVolumeArgs, _ *hints.Rules) {
			a.Disk = map[string]any{"serial": "none"}
		}, "no disk"},
		"no target": {func(d *Deployer, _ *agentapi.ExportVolumeArgs, _ *hints.Rules) { d.Target = &broken{} }, "this ramdisk's kernel has none"},
		"a disk that is not": {func(d *Deployer, _ *agentapi.ExportVolumeArgs, _ *hints.Rules) {
			d.Machine = both{{Name: "/dev/none", Size: size}}
		}, "opening disk"},
		"a disk that is kept": {func(d *Deployer, _ *agentapi.ExportVolumeArgs, r *hints.Rules) {
			d.Machine = both{{Name: "/dev/none", Size: size, Serial: "TENANT"}}
			var err error
			if r.Kept, err = hints.ParseKept([]any{map[string]any{"serial": "TENANT"}}); err != nil {
				t.Fatal(err)
			}
		}, "skip_block_devices"},
	} {
		d, _, _ := fixture(t, nil)
		p, args, rules := &plug{}, good, hints.Rules{MinBytes: 1}
		d.Target = p
		c.change(d, &args, &rules)
		_, err := d.ExportVolume(t.Context(), rules, "x", args, netip.MustParseAddr("127.0.0.1"))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), args.Secret) || p.out != "" {
			t.Errorf("%s: %v, want %q; out %q", name, err, c.want, p.out)
		}
	}
}
