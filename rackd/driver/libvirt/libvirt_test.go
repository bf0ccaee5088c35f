package libvirt

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/outbound"
)

var loopback = outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}

func newDriver(t *testing.T, o Options) *Driver {
	d := New(o)
	t.Cleanup(func() {
		if err := d.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return d
}

const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPlCtpGmsn0dzpdjV3JzC6JQ60UGMmEH4PvDZ5T7n0o1"

func TestValidate(t *testing.T) {
	d, elsewhere := newDriver(t, Options{Networks: loopback}), newDriver(t, Options{})
	for _, c := range []struct {
		d      *Driver
		fields map[string]any
		says   string // empty: it is fine
	}{
		{d, map[string]any{fieldURI: "qemu:///system"}, ""},
		{elsewhere, map[string]any{fieldURI: "qemu:///system"}, "--bmc-networks"},
		{d, nil, "libvirt_uri is missing"},
		{d, map[string]any{fieldURI: "qemu"}, "give qemu+ssh"},
		{d, map[string]any{fieldURI: "qemu+ssh://127.0.0.1"}, "no URI of libvirt"},
		{d, map[string]any{fieldURI: "qemu+tcp://127.0.0.1/system"}, "give qemu+ssh"},
		{d, map[string]any{fieldURI: "qemu+ssh:///system"}, "give qemu+ssh"},
		{d, map[string]any{fieldURI: "qemu+ssh://root:s3cret@127.0.0.1/system"}, "give it in libvirt_password"},
		{d, map[string]any{fieldURI: "qemu+ssh://127.0.0.1/system"}, "libvirt_password or libvirt_private_key is missing"},
		{d, map[string]any{fieldURI: "qemu+ssh://127.0.0.1/system", fieldPassword: "s3cret"}, "libvirt_host_key is no public key"},
		{d, map[string]any{fieldURI: "qemu+ssh://127.0.0.1/system", fieldPassword: "s3cret", fieldHostKey: hostKey}, ""},
		{d, map[string]any{fieldURI: "qemu+ssh://127.0.0.1/system", fieldPassword: "s3cret", fieldHostKey: "false"}, ""},
		{d, map[string]any{fieldURI: "qemu+ssh://127.0.0.1/system", fieldPrivateKey: "s3cret", fieldHostKey: hostKey}, "libvirt_private_key is no private key"},
		{elsewhere, map[string]any{fieldURI: "qemu+ssh://127.0.0.1/system", fieldPassword: "s3cret", fieldHostKey: hostKey}, "--bmc-networks"},
		{d, map[string]any{fieldURI: "qemu+tls://127.0.0.1/system"}, ""},
		{d, map[string]any{fieldURI: "qemu+tls://127.0.0.1/system", fieldPrivateKey: "s3cret"}, "give both libvirt_client_cert and libvirt_private_key"},
		{d, map[string]any{fieldURI: "qemu+tls://127.0.0.1/system", fieldVerifyCA: "ca.pem"}, "libvirt_verify_ca"},
		{d, map[string]any{fieldURI: "qemu:///system", fieldDomain: ""}, "libvirt_domain is missing"},
	} {
		n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{fieldDomain: "web1"}}
		for field, v := range c.fields {
			n.DriverInfo[field] = v
		}
		err := c.d.Validate(n)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%v: %v", c.fields, err)
		case c.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") || strings.Count(err.Error(), "b3d1") != 1):
			t.Errorf("%v: %v; want an ErrInvalid that says %q", c.fields, err, c.says)
		}
	}
}

func TestBootFrom(t *testing.T) {
	const two = "<domain type='kvm'>\n  <os>\n    <type arch='x86_64'>hvm</type>\n    <boot dev='hd'/>\n    <boot dev='network'/>\n  </os>\n  <devices>\n    <disk>\n      <boot order='1'/>\n    </disk>\n" +
		"    <interface>\n      <boot order='2' loadparm='x'/>\n    </interface>\n  </devices>\n</domain>\n"
	got, err := BootFrom(two, "network")
	const want = "<domain type='kvm'>\n  <os>\n    <type arch='x86_64'>hvm</type>\n    <boot dev='network'/>\n  </os>\n  <devices>\n    <disk>\n    </disk>\n    <interface>\n    </interface>\n  </devices>\n</domain>\n"
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	if again, err := BootFrom(got, "network"); err != nil || again != got {
		t.Errorf("once more it is changed: %v\n%s", err, again)
	}
	if _, err := BootFrom("<domain/>", "hd"); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("without firmware: %v", err)
	}
}
