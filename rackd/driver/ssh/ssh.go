// Package ssh is the power and management interfaces of virtual machines on a host that is reached by SSH, by the command line of
// its virtualisation: virsh, VirtualBox, VMware ESXi, Parallels and XenServer.
//
// It may import rackd/driver, rackd/driver/bmc, rackd/driver/libvirt for libvirt's descriptions, rackd/driver/nextboot,
// protocol and golang.org/x/crypto/ssh. Sessions, turns, courtesy, the fence and errors are those of
// rackd/driver/bmc. Invariants:
//   - A machine is the only one with a MAC address of the node's ports. It is looked at again before each order.
//   - The host's key is checked, unless the operator says on the node that it is not.
//   - A command is made of fixed words and of names that the host itself gave, which are quoted. A password stands in none.
//   - An order is one command, sent once; without its exit status the outcome is unknown.
//
// The driver libvirt does more for machines of libvirt. Everything exported is safe for concurrent use. Source: Ironic's driver of
// before 2017.
package ssh

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	xssh "golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/nextboot"
)

// Fields of driver_info, with Ironic's names, but for the host's key and libvirt's URI.
const (
	fieldAddress  = "ssh_address"
	fieldUser     = "ssh_username"
	fieldVirtType = "ssh_virt_type"
	fieldKey      = "ssh_key_contents"
	fieldKeyFile  = "ssh_key_filename"
	fieldPassword = "ssh_password"
	fieldPort     = "ssh_port"
	fieldHostKey  = "ssh_host_key"
	fieldURI      = "ssh_libvirt_uri"
	fieldHeadless = "vbox_use_headless"
)

// Driver implements driver.Power, driver.Management and driver.Keeper.
type Driver struct {
	opts  bmc.WebOptions
	pool  *bmc.Pool[*session]
	boots nextboot.Devices // of VirtualBox's machines that are on
}

// New returns a driver without any session; Close ends those that come.
func New(o bmc.WebOptions) *Driver {
	return &Driver{opts: o.Filled(), pool: bmc.NewPool[*session](o.Pool("ssh"))}
}

// Close ends the connections, until ctx ends. No call may follow.
func (d *Driver) Close(ctx context.Context) error { return d.pool.Close(ctx) }

// Properties names the fields that are read, in driver_info.
func (*Driver) Properties() map[string]string {
	return map[string]string{
		fieldAddress:  "Host name or address of the host of the virtual machine. Required.",
		fieldUser:     "User to log in as. Required.",
		fieldVirtType: "Virtualisation of the host: one of virsh, vbox, vmware, parallels, xenserver. Required.",
		fieldKey:      "Private key of the user, in PEM. With " + fieldPassword + ", that is its passphrase. One of the two is required.",
		fieldKeyFile:  "Refused: rackd reads no keys from its files. Give " + fieldKey + ".",
		fieldPassword: "Password of the user, or passphrase of the key.",
		fieldPort:     "TCP port of the host. Default 22.",
		fieldHostKey:  "Public key of the host, as in a line of known_hosts, or false: it is not checked. Required.",
		fieldURI:      "URI that virsh opens. Default qemu:///system.",
		fieldHeadless: "Whether VirtualBox starts machines without a display, true or false. Default false.",
	}
}

// target is a host and how it is logged in to.
type target struct {
	host, port     string
	user, password string
	signer         xssh.Signer    // nil: by password
	hostKey        xssh.PublicKey // nil: it is not checked
	kind           dialect
	macs           []string
	sum            [32]byte
	secrets        []string
}

func (t target) address() string { return net.JoinHostPort(t.host, t.port) }

// parse reads driver_info. Errors wrap driver.ErrInvalid and have Ironic's words where it has some.
func parse(n *node.Document) (t target, err error) {
	refuse := func(err error) (target, error) { return target{}, fmt.Errorf("node %s: %w", n.Label(), err) }
	if missing := bmc.Missing(n, fieldAddress, fieldUser, fieldVirtType); missing != "" {
		return refuse(driver.Refuse("SSHPowerDriver requires the following parameters to be set in node's driver_info: %s.", missing))
	}
	t = target{user: n.DriverString(fieldUser), password: n.DriverString(fieldPassword)}
	if t.host, err = bmc.Host(n, fieldAddress, fieldPort); err != nil {
		return refuse(err)
	}
	if t.port, err = bmc.Port(n, fieldPort, "22"); err != nil {
		return refuse(err)
	}
	headless := false
	if text := n.DriverString(fieldHeadless); text != "" {
		if headless, err = strconv.ParseBool(strings.ToLower(text)); err != nil {
			return refuse(driver.Refuse("%s is %q: give true or false", fieldHeadless, text))
		}
	}
	uri := n.DriverString(fieldURI)
	if uri == "" {
		uri = "qemu:///system"
	}
	speaking := dialects[n.DriverString(fieldVirtType)]
	if speaking == nil {
		return refuse(driver.Refuse("SSHPowerDriver '%s' is not a valid virt_type.", n.DriverString(fieldVirtType)))
	}
	t.kind = speaking(uri, headless)
	key := n.DriverString(fieldKey)
	switch {
	case n.DriverString(fieldKeyFile) != "":
		return refuse(driver.Refuse("%s is not read: a rackd opens no file for a node. Give the key itself in %s.", fieldKeyFile, fieldKey))
	case key == "" && t.password == "":
		return refuse(driver.Refuse("SSHPowerDriver requires at least one of ssh_password, ssh_key_contents and ssh_key_filename to be set."))
	case key != "" && t.password != "":
		t.signer, err = xssh.ParsePrivateKeyWithPassphrase([]byte(key), []byte(t.password))
		if err != nil { // it may have none
			t.signer, err = xssh.ParsePrivateKey([]byte(key))
		}
	case key != "":
		t.signer, err = xssh.ParsePrivateKey([]byte(key))
	}
	if err != nil {
		return refuse(driver.Refuse("%s is no private key in PEM, or %s is not its passphrase", fieldKey, fieldPassword))
	}
	if t.hostKey, err = bmc.HostKey(fieldHostKey, n.DriverString(fieldHostKey)); err != nil {
		return refuse(err)
	}
	for _, p := range n.Ports {
		t.macs = append(t.macs, bare(p.Address))
	}
	t.sum = sha256.Sum256([]byte(strings.Join([]string{t.address(), t.user, t.password, key, n.DriverString(fieldHostKey)}, "\x00")))
	t.secrets = []string{t.password, key}
	return t, nil
}

// Validate checks driver_info, and that there are ports to find the machine by.
func (d *Driver) Validate(n *node.Document) error {
	t, err := parse(n)
	if err != nil {
		return err
	}
	if len(t.macs) == 0 {
		return driver.Refuse("Node %s does not have any port associated with it.", n.UUID)
	}
	ip, err := netip.ParseAddr(t.host)
	if err != nil {
		return nil // what a name leads to is checked when it is dialled
	}
	if err := d.opts.Networks.Check(ip); err != nil {
		return fmt.Errorf("node %s: %s: %w: %w", n.Label(), fieldAddress, err, driver.ErrInvalid)
	}
	return nil
}

// ByPorts implements driver.ByPorts.
func (*Driver) ByPorts() bool { return true }

// Account implements driver.Accounted.
func (*Driver) Account(n *node.Document) string {
	t, err := parse(n)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(t.sum[:])
}

// LocatesBMC implements driver.Located: a virtual machine has none to look for.
func (*Driver) LocatesBMC() {}

// Kept implements driver.Keeper.
func (d *Driver) Kept(n *node.Document) json.RawMessage { return d.boots.Kept(n) }

// host is a session at the caller's turn, and the machine that is meant.
type host struct {
	*session
	target
	id string
}

// with runs do on the node's machine when it is the caller's turn at its host, and explains what went wrong.
func (d *Driver) with(ctx context.Context, n *node.Document, doing string, do func(host) error) error {
	t, err := parse(n)
	if err != nil {
		return err
	}
	err = d.pool.Use(ctx, bmc.Account{Address: t.address(), Sum: t.sum, Node: n},
		func(ctx context.Context) (*session, error) { return open(ctx, t, d.opts) },
		func(s *session) error {
			id, err := s.find(ctx, t)
			if err != nil {
				return err
			}
			return do(host{s, t, id})
		})
	return bmc.Attempt{Node: n, Doing: doing, Device: "host", BMC: t.address(), User: t.user, Secrets: t.secrets,
		Fields: bmc.Fields{Address: fieldAddress, User: fieldUser, Password: fieldPassword + " or " + fieldKey}}.Explain(err)
}

// bare is a MAC address without what separates its octets.
func bare(mac string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789abcdef", r) {
			return r
		}
		return -1
	}, strings.ToLower(mac))
}

// find looks the machine up by its MAC addresses. One that was found before is looked at first.
func (s *session) find(ctx context.Context, t target) (string, error) {
	has := func(id string) (bool, error) {
		text, err := s.read(ctx, t.kind.macs(id))
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(t.kind.macsIn(text), func(mac string) bool { return slices.Contains(t.macs, mac) }), nil
	}
	key := t.kind.base + strings.Join(t.macs, " ")
	if id := s.found[key]; id != "" {
		if is, err := has(id); is || err != nil && !refused(err) {
			return id, err
		}
		delete(s.found, key)
	}
	text, err := s.read(ctx, t.kind.list)
	if err != nil {
		return "", err
	}
	var found []string
	for _, id := range t.kind.listIn(text) {
		is, err := has(id)
		if err != nil && !refused(err) { // a machine that was removed since is none of the node's
			return "", err
		}
		if is {
			found = append(found, id)
		}
	}
	if len(found) != 1 {
		return "", &bmc.Failure{Class: bmc.Invalid, Said: fmt.Sprintf("a list with %d machines that have a MAC address of the node's ports %s; SSH driver was not able to find a VM with any of the specified MACs, or found several",
			len(found), strings.Join(t.macs, " "))}
	}
	s.found[key] = found[0]
	return found[0], nil
}
