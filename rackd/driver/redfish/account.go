package redfish

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Fields of driver_info, with Ironic's names.
const (
	fieldAddress  = "redfish_address"
	fieldSystem   = "redfish_system_id"
	fieldUser     = "redfish_username"
	fieldPassword = "redfish_password"
	fieldVerifyCA = "redfish_verify_ca"
	fieldAuth     = "redfish_auth_type"
	// fieldIdentity is Ironyard's own.
	fieldIdentity = "redfish_identity"
)

// account is how to reach one BMC, as a node's driver_info has it.
type account struct {
	endpoint string // https://host[:port], no path
	user     string
	password string
	verifyCA string // true, false, pin, PEM or the name of a PEM file
	auth     string // auto, session, basic
	system   string // path, empty: the BMC's only system
	// ignored: UUID and serial number that the BMC reports are not to be believed.
	ignored bool
	// timeout bounds the wait for an answer; 0: the driver's own limit.
	timeout time.Duration
	// names are those of the fields of driver_info.
	names Values
	// node is whose driver_info it is.
	node *node.Document
}

// parse reads driver_info; errors wrap driver.ErrInvalid and name all that is wrong.
func (d Dialect) parse(n *node.Document) (account, error) {
	v, timeout, err := d.Read(n)
	if err != nil {
		return account{}, fmt.Errorf("node %s: %w", n.Label(), err)
	}
	a := account{user: v.User, password: v.Password, verifyCA: bmc.VerifyCA(v.VerifyCA), auth: v.Auth, system: v.System,
		ignored: v.Identity == "ignore", timeout: timeout, names: d.Names, node: n}
	var wrong []string
	if v.Address == "" {
		wrong = append(wrong, d.Names.Address+" is missing")
	} else if a.endpoint, err = endpointOf(v.Address, d.Names); err != nil {
		wrong = append(wrong, err.Error())
	}
	if (a.user == "") != (a.password == "") {
		wrong = append(wrong, "give both "+d.Names.User+" and "+d.Names.Password+", or neither")
	}
	switch a.auth {
	case "":
		a.auth = "auto"
	case "auto", "session", "basic":
	default:
		wrong = append(wrong, fmt.Sprintf("%s is %q: give auto, session or basic", d.Names.Auth, a.auth))
	}
	switch v.Identity {
	case "", "trust", "ignore":
	default:
		wrong = append(wrong, fmt.Sprintf("%s is %q: give trust or ignore", d.Names.Identity, v.Identity))
	}
	if a.system != "" {
		if !strings.HasPrefix(a.system, "/") {
			a.system = "/redfish/v1/Systems/" + url.PathEscape(a.system)
		}
		if strings.ContainsAny(a.system, "?#@\\ \r\n\t") || path.Clean(a.system) != strings.TrimSuffix(a.system, "/") {
			wrong = append(wrong, fmt.Sprintf("%s is %q: give a path such as /redfish/v1/Systems/1", d.Names.System, a.system))
		}
	}
	if len(wrong) > 0 {
		return account{}, fmt.Errorf("node %s: driver_info: %s: %w", n.Label(), strings.Join(wrong, "; "), driver.ErrInvalid)
	}
	return a, nil
}

// endpointOf reads an address: a URL without a path of its own, or a host.
func endpointOf(address string, names Values) (string, error) {
	if !strings.Contains(address, "://") {
		if strings.Count(address, ":") > 1 && !strings.HasPrefix(address, "[") {
			address = "[" + address + "]" // a bare IPv6 address
		}
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Hostname() == "" {
		return "", fmt.Errorf("%s is neither a URL nor a host", names.Address)
	}
	rest := strings.TrimSuffix(u.Path, "/")
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return "", fmt.Errorf("%s has the scheme %q: give https", names.Address, u.Scheme)
	case u.User != nil:
		return "", fmt.Errorf("%s contains a user name: give it in %s and %s", names.Address, names.User, names.Password)
	case rest != "" && rest != "/redfish" && rest != "/redfish/v1", u.RawQuery != "", u.Fragment != "":
		return "", fmt.Errorf("%s has a path: give scheme, host and port only", names.Address)
	}
	return u.Scheme + "://" + u.Host, nil
}

// placed checks an address that is no name. What a name leads to is checked when it is dialled.
func (a account) placed(networks outbound.BMCs) error {
	u, err := url.Parse(a.endpoint)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", a.names.Address, err, driver.ErrInvalid)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil
	}
	if err := networks.Check(ip); err != nil {
		return fmt.Errorf("%s: %w: %w", a.names.Address, err, driver.ErrInvalid)
	}
	return nil
}

// sum changes when anything that a session depends on does.
func (a account) sum() [32]byte {
	return sha256.Sum256([]byte(strings.Join([]string{a.endpoint, a.user, a.password, a.verifyCA, a.auth, a.timeout.String()}, "\x00")))
}

// trust is how the BMC's certificate is checked.
func (a account) trust(o Options) bmc.Trust {
	return bmc.Trust{Verify: a.verifyCA, Field: a.names.VerifyCA, Folder: o.CAFolder, Pins: o.Shared.Pins, Node: a.node, Address: a.endpoint,
		Plain: strings.HasPrefix(a.endpoint, "http://"), AddressField: a.names.Address}
}
