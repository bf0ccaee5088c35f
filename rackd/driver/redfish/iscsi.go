package redfish

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// A function of a network adapter boots by iSCSI as its property iSCSIBoot says (DMTF's NetworkDeviceFunction). Many take a
// change in a settings object, and carry it out at the machine's next start.

// iscsiBoot is that property, as far as it is written here. In answers what is not there is its zero value.
type iscsiBoot struct {
	IPAddressType          string
	InitiatorName          string
	PrimaryTargetName      string
	PrimaryTargetIPAddress string
	PrimaryTargetTCPPort   any // a number; texts have been seen
	PrimaryLUN             any
	TargetInfoViaDHCP      bool
	AuthenticationMethod   string
	CHAPUsername           string
	MutualCHAPUsername     string

	SecondaryTargetName      string
	SecondaryTargetIPAddress string
	SecondaryTargetTCPPort   any
	SecondaryLUN             any
}

// deviceFunction is a function of a network adapter.
type deviceFunction struct {
	ref
	BootMode  string
	Ethernet  struct{ MACAddress, PermanentMACAddress string }
	ISCSIBoot *iscsiBoot `json:"iSCSIBoot"`
	Settings  struct {
		SettingsObject      ref
		SupportedApplyTimes []string
		Messages            []struct{ Message, MessageID string }
	} `json:"@Redfish.Settings"`
	shared bool // it is in a chassis that has other systems, too
}

// target is what the function boots from, and whether it does.
func (f deviceFunction) target() (t driver.ISCSITarget, on bool) {
	b := f.ISCSIBoot
	if b == nil || b.PrimaryTargetName == "" || !strings.EqualFold(f.BootMode, "iSCSI") {
		return t, false
	}
	number := func(v any) int {
		switch v := v.(type) {
		case float64:
			return int(v)
		case string:
			n, err := strconv.Atoi(v)
			if err == nil {
				return n
			}
		}
		return -1
	}
	t = driver.ISCSITarget{Host: b.PrimaryTargetIPAddress, Port: number(b.PrimaryTargetTCPPort), IQN: b.PrimaryTargetName, LUN: number(b.PrimaryLUN), Initiator: b.InitiatorName}
	if b.SecondaryTargetName != "" {
		t.Second = driver.ISCSIPath{Host: b.SecondaryTargetIPAddress, Port: number(b.SecondaryTargetTCPPort), IQN: b.SecondaryTargetName, LUN: number(b.SecondaryLUN)}
	}
	if b.AuthenticationMethod == "CHAP" || b.AuthenticationMethod == "MutualCHAP" {
		t.User = b.CHAPUsername
	}
	if b.AuthenticationMethod == "MutualCHAP" {
		t.TargetUser = b.MutualCHAPUsername
	}
	return t, true
}

// deviceFunctions are the functions that get a target: those of the node's ports, or all where none of them is a port's.
func deviceFunctions(t *Turn, n *node.Document) ([]deviceFunction, error) {
	list, err := iscsiFunctions(t)
	return ofPorts(list, n), err
}

func ofPorts(list []deviceFunction, n *node.Document) []deviceFunction {
	own := slices.DeleteFunc(slices.Clone(list), func(f deviceFunction) bool {
		return !slices.ContainsFunc(n.Ports, func(p node.Port) bool {
			return strings.EqualFold(p.Address, f.Ethernet.MACAddress) || strings.EqualFold(p.Address, f.Ethernet.PermanentMACAddress)
		})
	})
	if len(own) > 0 {
		return own
	}
	return list
}

// ofMachine are the functions that may have a target: the ports of a node may be others than when it got one. In a chassis of several
// systems they are those of the ports, for the rest may be another machine's.
func ofMachine(list []deviceFunction, n *node.Document) []deviceFunction {
	ports := ofPorts(list, n)
	return slices.DeleteFunc(slices.Clone(list), func(f deviceFunction) bool {
		return f.shared && !slices.ContainsFunc(ports, func(p deviceFunction) bool { return p.Path == f.Path })
	})
}

// iscsiFunctions are the functions of the machine's adapters that boot by iSCSI, each as it is to be at the next start.
func iscsiFunctions(t *Turn) (list []deviceFunction, err error) {
	var p parts
	if err := t.Read(t.System.Path, &p); err != nil {
		return nil, err
	}
	v := &survey{c: t.c}
	chassis, err := v.chassisOf(p)
	if err != nil {
		return nil, err
	}
	for _, at := range chassis[:min(len(chassis), mostChassis)] {
		var of struct {
			NetworkAdapters ref
			Links           struct{ ComputerSystems []ref }
		}
		if err := absent(t.Read(at.Path, &of)); err != nil {
			return nil, err
		}
		adapters, err := listed(t.c, of.NetworkAdapters.Path)
		if err != nil {
			return nil, err
		}
		for _, a := range adapters {
			var adapter struct{ NetworkDeviceFunctions ref }
			if err := absent(t.Read(a.Path, &adapter)); err != nil {
				return nil, err
			}
			functions, err := listed(t.c, adapter.NetworkDeviceFunctions.Path)
			if err != nil {
				return nil, err
			}
			for _, f := range functions {
				function := deviceFunction{ref: f}
				if err := absent(t.Read(f.Path, &function)); err != nil {
					return nil, err
				}
				if function.ISCSIBoot == nil {
					continue
				}
				function.ref, function.shared = f, len(of.Links.ComputerSystems) > 1
				if err := function.pending(t); err != nil {
					return nil, err
				}
				list = append(list, function)
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("none of its network adapters boots by iSCSI: %w", driver.ErrUnsupported)
	}
	return list, nil
}

// pending takes in what the settings object of the function holds.
func (f *deviceFunction) pending(t *Turn) error {
	at := f.Settings.SettingsObject.Path
	if at == "" {
		return nil
	}
	var staged struct {
		BootMode  string
		ISCSIBoot *stagedBoot `json:"iSCSIBoot"`
	}
	switch err := t.Read(at, &staged); {
	case status(err) == http.StatusNotFound:
		return nil
	case err != nil:
		return err
	}
	if staged.BootMode != "" {
		f.BootMode = staged.BootMode
	}
	// Some BMCs show each property as null where nothing is staged; then the boot mode is null, too.
	if b := staged.ISCSIBoot; b != nil && (b.PrimaryTargetName != "" || b.names && staged.BootMode != "") {
		b.IPAddressType = cmp.Or(b.IPAddressType, f.ISCSIBoot.IPAddressType)
		f.ISCSIBoot = &b.iscsiBoot
	}
	return nil
}

// stagedBoot is iscsiBoot in a settings object. names: it names a target, or says that there is none.
type stagedBoot struct {
	iscsiBoot
	names bool
}

func (b *stagedBoot) UnmarshalJSON(text []byte) error {
	var names map[string]json.RawMessage
	if err := json.Unmarshal(text, &names); err != nil {
		return err
	}
	_, b.names = names["PrimaryTargetName"]
	return json.Unmarshal(text, &b.iscsiBoot)
}

// listed lists a collection's members; one that is not there has none.
func listed(c *gofish.APIClient, path string) ([]ref, error) {
	if path == "" {
		return nil, nil
	}
	list, err := members(c, path)
	return list, absent(err)
}

// absent drops the error of a link that leads nowhere.
func absent(err error) error {
	if code := status(err); code == http.StatusNotFound || code == http.StatusGone {
		return nil
	}
	return err
}

// ISCSIBoot implements driver.ISCSIBooter.
func (d *Driver) ISCSIBoot(ctx context.Context, n *node.Document) (list []driver.ISCSITarget, err error) {
	err = d.Turn(ctx, nil, n, "read the iSCSI targets", func(t *Turn) error {
		functions, err := iscsiFunctions(t)
		for _, f := range ofMachine(functions, n) {
			if target, on := f.target(); on {
				list = append(list, target)
			}
		}
		return err
	})
	return list, err
}

// ISCSIRoom implements driver.ISCSIBooter: that of the standard's property.
func (*Driver) ISCSIRoom() driver.ISCSIRoom { return driver.ISCSIRoom{Paths: 2, Mutual: true} }

// SetISCSIBoot implements driver.ISCSIBooter.
func (d *Driver) SetISCSIBoot(ctx context.Context, f driver.Fence, n *node.Document, target driver.ISCSITarget) error {
	if err := target.Check(n); err != nil {
		return err
	}
	boot := map[string]any{"PrimaryTargetName": target.IQN, "PrimaryTargetIPAddress": target.Host, "PrimaryTargetTCPPort": target.Port,
		"PrimaryLUN": target.LUN, "TargetInfoViaDHCP": false, "AuthenticationMethod": "None"}
	if target.User != "" {
		boot["AuthenticationMethod"], boot["CHAPUsername"], boot["CHAPSecret"] = "CHAP", target.User, target.Secret
	}
	if target.Mutual() {
		boot["AuthenticationMethod"], boot["MutualCHAPUsername"], boot["MutualCHAPSecret"] = "MutualCHAP", target.TargetUser, target.TargetSecret
	}
	if target.Initiator != "" {
		boot["InitiatorName"] = target.Initiator
	}
	second := map[string]any{"SecondaryTargetName": target.Second.IQN, "SecondaryTargetIPAddress": target.Second.Host}
	wanted := target.Second != driver.ISCSIPath{}
	if wanted {
		second["SecondaryTargetTCPPort"], second["SecondaryLUN"] = target.Second.Port, target.Second.LUN
	}
	bodies := func(now deviceFunction) []map[string]any {
		set := maps.Clone(boot)
		if wanted || now.ISCSIBoot.SecondaryTargetName != "" { // many adapters have none, and need not be told
			maps.Copy(set, second)
		}
		if now.ISCSIBoot.addresses(target.Host) {
			set["IPAddressType"] = addressKind(target.Host)
		}
		return []map[string]any{{"BootMode": modeISCSI, "iSCSIBoot": set}}
	}
	so := func(now deviceFunction) error {
		if is, on := now.target(); !on || !target.Same(is) {
			return notShown(now)
		}
		return nil
	}
	err := d.changeFunctions(ctx, f, n, functionChange{doing: "set the iSCSI target", of: ofPorts, bodies: bodies, so: so, always: target.Secret != ""})
	return HideAll(target.Secrets(), err)
}

// Kinds of addresses.
const ipv4, ipv6 = "IPv4", "IPv6"

// addressKind is that of an address.
func addressKind(host string) string {
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		return ipv6
	}
	return ipv4
}

// addresses reports whether the kind of addresses has to change for a target at host. Adapters that show no kind are told none.
func (b *iscsiBoot) addresses(host string) bool {
	return b.IPAddressType != "" && b.IPAddressType != addressKind(host)
}

// Boot modes of a function.
const modeISCSI, modePXE = "iSCSI", "PXE"

// ClearISCSIBoot implements driver.ISCSIBooter: the functions boot by PXE again, and forget the target. Its name and its account would
// be there for who gets the machine next. So all functions of the machine are cleared, whichever ports the node has now.
func (d *Driver) ClearISCSIBoot(ctx context.Context, f driver.Fence, n *node.Document) error {
	return d.changeFunctions(ctx, f, n, functionChange{doing: "clear the iSCSI target", of: ofMachine, bodies: deviceFunction.forgetting, so: deviceFunction.cleared, all: true})
}

// forgetting are changes that take the target away, the best first: the next is for a BMC that refuses the one before. Its secrets are
// emptied, or overwritten. A boot mode that is not iSCSI stays.
func (f deviceFunction) forgetting() (bodies []map[string]any) {
	mode := modePXE
	if f.BootMode != "" && !strings.EqualFold(f.BootMode, modeISCSI) {
		mode = f.BootMode
	}
	type words struct{ name, address, user, secret any }
	for _, w := range []words{{"", "", "", ""}, {}, {name: driver.NoISCSITarget, user: driver.NoISCSIUser, secret: rand.Text()[:16]}} {
		boot := map[string]any{"PrimaryTargetName": w.name, "CHAPUsername": w.user, "CHAPSecret": w.secret}
		if w.name != driver.NoISCSITarget {
			boot["AuthenticationMethod"], boot["PrimaryTargetIPAddress"] = "None", w.address
			if f.ISCSIBoot.IPAddressType == ipv6 {
				boot["IPAddressType"] = ipv4 // of a target that is none
			}
		}
		if f.ISCSIBoot.SecondaryTargetName != "" { // many adapters have none, and need not be told
			boot["SecondaryTargetName"] = w.name
			if w.name != driver.NoISCSITarget {
				boot["SecondaryTargetIPAddress"] = w.address
			}
		}
		if f.ISCSIBoot.MutualCHAPUsername != "" {
			boot["MutualCHAPUsername"], boot["MutualCHAPSecret"] = w.user, w.secret
			if w.name == driver.NoISCSITarget {
				boot["MutualCHAPSecret"] = rand.Text()[:16] // one secret for both ways is refused
			}
		}
		bodies = append(bodies, map[string]any{"BootMode": mode, "iSCSIBoot": boot})
	}
	return append(bodies, map[string]any{"BootMode": mode})
}

// cleared says what is left of a target; nil: nothing.
func (f deviceFunction) cleared() error {
	if _, on := f.target(); on {
		return notShown(f)
	}
	var left []string
	for name, is := range map[string]string{"PrimaryTargetName": f.ISCSIBoot.PrimaryTargetName, "SecondaryTargetName": f.ISCSIBoot.SecondaryTargetName,
		"CHAPUsername": f.ISCSIBoot.CHAPUsername, "MutualCHAPUsername": f.ISCSIBoot.MutualCHAPUsername} {
		if is != "" && is != driver.NoISCSITarget && is != driver.NoISCSIUser {
			left = append(left, name)
		}
	}
	if left == nil {
		return nil
	}
	slices.Sort(left)
	return fmt.Errorf("its network adapter function %s still has %s, and perhaps secrets of CHAP: change these at the target, or empty them in the firmware's own menu: %w",
		f.Path, strings.Join(left, ", "), driver.ErrTargetKept)
}

func notShown(f deviceFunction) error {
	return fmt.Errorf("it accepted the change, and its network adapter function %s does not show it", f.Path)
}

// functionChange is a change of functions of network adapters.
type functionChange struct {
	doing string
	of    func([]deviceFunction, *node.Document) []deviceFunction // which functions
	// bodies are what is sent: the first that the BMC does not refuse for its values.
	bodies func(now deviceFunction) []map[string]any
	so     func(deviceFunction) error // what is wrong with a function, before and after
	always bool                       // functions with which nothing is wrong are changed, too
	all    bool                       // one that refuses does not keep the others from their change
}

// changeFunctions makes the change, and reads back.
func (d *Driver) changeFunctions(ctx context.Context, f driver.Fence, n *node.Document, c functionChange) error {
	return d.Turn(ctx, f, n, c.doing, func(t *Turn) error {
		functions, err := iscsiFunctions(t)
		if err != nil {
			return err
		}
		refused := map[string]error{}
		for _, one := range c.of(functions, n) {
			if c.so(one) == nil && !c.always {
				continue
			}
			at := one.Path
			if one.Settings.SettingsObject.Path != "" {
				at = one.Settings.SettingsObject.Path
			}
			for _, change := range c.bodies(one) {
				if slices.Contains(one.Settings.SupportedApplyTimes, applyAtReset) {
					change["@Redfish.SettingsApplyTime"] = map[string]any{"@odata.type": "#Settings.v1_1_0.PreferredApplyTime", "ApplyTime": applyAtReset}
				}
				if _, err = t.Change(at, change); !RefusesValues(err) {
					break
				}
			}
			switch failure := failureOf(err, true); {
			case err == nil:
			case c.all && failure != nil && failure.Class == bmc.Refused:
				refused[one.Path] = fmt.Errorf("to the change of its network adapter function %s it answered %s", one.Path, failure.Said)
			default:
				return fmt.Errorf("network adapter function %s: %w", one.Path, err)
			}
		}
		if functions, err = iscsiFunctions(t); err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		var failed, kept error
		for _, one := range c.of(functions, n) {
			if err := c.so(one); errors.Is(err, driver.ErrTargetKept) {
				kept = errors.Join(kept, err)
			} else {
				failed = errors.Join(failed, cmp.Or(refused[one.Path], err))
			}
		}
		return cmp.Or(failed, kept)
	})
}

// RefusesValues reports whether a BMC has refused what a change sets, and may take something else.
func RefusesValues(err error) bool {
	return slices.Contains([]int{http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusNotImplemented}, status(err))
}

// hiding is an error whose text had a secret of the call in it.
type hiding struct {
	text  string
	cause error
}

func (h *hiding) Error() string { return h.text }
func (h *hiding) Unwrap() error { return h.cause }

// HideAll is Hide for several.
func HideAll(secrets []string, err error) error {
	for _, s := range secrets {
		err = Hide(s, err)
	}
	return err
}

// Hide takes a secret out of an error that is not one of the account, in whatever form a BMC repeats it.
func Hide(secret string, err error) error {
	if err == nil || secret == "" || errors.Is(err, driver.ErrFenced) {
		return err
	}
	text := bmc.Without(err.Error(), secret)
	if text == err.Error() {
		return err
	}
	return &hiding{text, err}
}
