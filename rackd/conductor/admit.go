package conductor

import (
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/networkdata"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/runner"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/refusal"
)

// Leases is what this rackd's DHCP knows. Safe for concurrent use.
type Leases interface {
	// Addresses returns the addresses that a machine was given, here or, as far as it was overheard, elsewhere.
	Addresses(mac string) []netip.Addr
}

// Refused calls cost this many log lines and no more: strangers may call as often as they like.
const (
	refusalsAtFirst = 20
	refusalsEvery   = 10 * time.Second
)

// refused counts a call that was refused, and logs it unless many are.
func (c *Conductor) refused(call, why string, details ...any) {
	c.cfg.Metrics.AgentRefused(call, why)
	c.loud.Do(func() {
		c.log.Warn("call of an agent refused", append([]any{slog.String("call", call), slog.String("why", why)}, details...)...)
	})
}

// quietly bounds log lines.
func quietly() *rate.Sometimes {
	return &rate.Sometimes{First: refusalsAtFirst, Interval: refusalsEvery}
}

// bootOf is the newest boot into the ramdisk that the owner of a node's work has caused, as far as
// this rackd knows.
func (c *Conductor) bootOf(id string) work.Boot {
	if r := c.runner(id); r != nil {
		return r.Boot()
	}
	if w := c.cfg.Documents.Work(id); w != nil {
		return w.Doc.Checkpoint.Boot
	}
	return work.Boot{}
}

// addresses are those that a node's machine is known to have been given.
func (c *Conductor) addresses(n *node.Document, boot work.Boot) []netip.Addr {
	list := slices.Clone(boot.Addresses)
	for _, a := range networkdata.Addresses(c.interfaces(n)) {
		if !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	if c.cfg.Leases == nil {
		return list
	}
	for _, p := range n.Ports {
		for _, a := range c.cfg.Leases.Addresses(strings.ToLower(p.Address)) {
			if !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	return list
}

// admit returns the boot that a call comes from: it shows the boot's id, and comes from an address
// that the machine was given, where that is known. Where a boot carries no id the address alone
// speaks for the call, or the operator. Else it is ErrNoNode; nothing changes.
func (c *Conductor) admit(call string, n *node.Document, r *runner.Runner, from ask.Caller) (work.Boot, error) {
	boot := c.bootOf(n.UUID)
	known := c.addresses(n, boot)
	key := c.cfg.Keys.Of(n.Group)
	given := slices.Contains(known, from.From)
	refuse := func(why, todo string) (work.Boot, error) {
		c.refused(call, why, "node", n.UUID, "from", from.From, "given", known, "todo", todo)
		return boot, refusal.ErrNoNode
	}
	switch {
	case key == nil:
		return refuse("no key", "give this rackd the key of conductor group "+n.Group)
	case boot.Number > 0 && r.BootFact() != driver.BootRamdisk:
		return refuse("no boot", "the node's work no longer needs a ramdisk: if this is the node's machine, find out why it still runs one")
	case !given && len(ofKind(known, from.From)) > 0 && !from.Central && !networkdata.Elsewhere(c.interfaces(n), from.From.Is6()):
		return refuse("address", "if this is the node's machine: let it ask DHCP again, or look for a second DHCP server")
	case from.BootID != "" && key.BootIDFits(n.UUID, r.Root(), boot.Number, from.BootID):
		return boot, nil
	case from.BootID != "":
		return refuse("another boot", "if this is the node's machine: start it again")
	case !c.withoutID(n, boot):
		return refuse("no boot id", "the ramdisk must call the URL that its boot script gives it")
	case given || c.cfg.TrustFirstLookup:
		return boot, nil
	}
	return refuse("no boot id", "a boot of this kind has none: let rackd serve DHCP, or start rackd with --trust-first-lookup if no stranger can reach it")
}

// withoutID reports whether the ramdisk cannot know the id of its boot: it comes from a fixed image
// on virtual media, without a second medium of parameters, or was booted by a rackd that did not count boots.
func (c *Conductor) withoutID(n *node.Document, boot work.Boot) bool {
	if boot.Number == 0 {
		return true
	}
	hw, err := c.cfg.Hardware.Resolve(n)
	return err == nil && !hw.Boot().RamdiskOrder(n, nil).Boots() && !hw.TellsBoot(n)
}

// Bounds of what a heartbeat says, which is kept in the checkpoint.
const (
	maxCallback    = 300
	maxCertificate = 16 << 10
	maxVersion     = 100
)

// callable refuses an agent that this rackd could not call, or not be sure whom it calls.
func (c *Conductor) callable(n *node.Document, boot work.Boot, hb ask.Heartbeat) error {
	if hb.AgentVerifyCA == "" {
		return fmt.Errorf("%w: the heartbeat has no agent_verify_ca (the certificate of the agent's API), so rackd cannot tell which agent it calls: use an agent with TLS that supports API version 1.68", refusal.ErrBadCallback)
	}
	u, err := url.Parse(hb.CallbackURL)
	if err != nil || u.Scheme != "https" || u.User != nil || len(hb.CallbackURL) > maxCallback {
		return fmt.Errorf("%w: %.100q must be https, without a user, and of at most %d bytes", refusal.ErrBadCallback, hb.CallbackURL, maxCallback)
	}
	at, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return fmt.Errorf("%w: %q: its host must be an IP address", refusal.ErrBadCallback, hb.CallbackURL)
	}
	if len(hb.AgentVerifyCA) > maxCertificate || len(hb.AgentVersion) > maxVersion || len(hb.Heartbeat.BootID) > maxVersion {
		return fmt.Errorf("%w: the heartbeat's certificate, version or boot id is too long", refusal.ErrBadCallback)
	}
	known, at := c.addresses(n, boot), at.Unmap()
	bySame := !hb.Central && hb.From.IsValid() && hb.From.Is4() == at.Is4()
	elsewhere := (bySame || hb.Central) && networkdata.Elsewhere(c.interfaces(n), at.Is6())
	switch {
	case len(known) == 0, len(ofKind(known, at)) == 0 && bySame, elsewhere:
		if reach := reachOf(at); reach != "" && (hb.Central || reachOf(hb.From) != reach) {
			return fmt.Errorf("%w: %q is %s address, which from this rackd leads elsewhere than from the machine", refusal.ErrBadCallback, hb.CallbackURL, reach)
		}
	case !hb.Central && len(ofKind(known, hb.From)) > 0 && !slices.Contains(known, hb.From): // central tells of a proxy, perhaps
		return fmt.Errorf("%w: the call comes from %s, and the machine was given %v", refusal.ErrBadCallback, hb.From, known)
	case !slices.Contains(known, at):
		return fmt.Errorf("%w: %q: the machine was given %v", refusal.ErrBadCallback, hb.CallbackURL, known)
	}
	return nil
}

// ofKind are the addresses of the version of IP that a has; none where a is none. What a machine was given by one version
// says nothing of its addresses by the other, which another server may give.
func ofKind(list []netip.Addr, a netip.Addr) (same []netip.Addr) {
	for _, other := range list {
		if a.IsValid() && other.Is4() == a.Is4() {
			same = append(same, other)
		}
	}
	return same
}

// reachOf says which kind of address leads no further than a machine itself or its link, and so elsewhere from each of them;
// empty: the address is an ordinary one. A caller on this rackd's own machine or link may name one of the kind that it calls from.
func reachOf(a netip.Addr) string {
	switch {
	case a.IsLoopback():
		return "a loopback"
	case a.IsLinkLocalUnicast():
		return "a link-local"
	case a.IsMulticast():
		return "a multicast"
	case a.IsUnspecified():
		return "an unspecified"
	}
	return ""
}
