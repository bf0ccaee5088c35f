package api

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/provision"
)

// machine finds the node with a UUID, or else the one that all the addresses belong to.
func (s *Server) machine(ctx context.Context, id string, macs []string) (*store.Node, error) {
	var err error
	if id == "" {
		id, err = ownerOf(ctx, s.Store.Port, macs)
	}
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, notFound()
	}
	n, err := s.Store.Node(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound()
	}
	return n, err
}

// ownerOf returns the UUID of the node that the addresses of ports belong to, empty for
// none. It is an error when they belong to several. port is the store's method, or a transaction's.
func ownerOf(ctx context.Context, port func(ctx context.Context, address string) (*store.Port, error), macs []string) (id string, err error) {
	for _, mac := range macs {
		p, err := port(ctx, mac)
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case err != nil:
			return "", err
		case id != "" && id != p.Node:
			return "", notFound()
		}
		id = p.Node
	}
	return id, nil
}

// inspectedMachine finds the node that data of an inspection may belong to: by the UUID
// that the ramdisk says, by its MAC addresses and by its BMC's addresses. Those that say
// something must say the same: what was found in one machine is never taken for another's.
// The node waits for the data, or is in enroll; nil: the addresses are no node's, and no UUID was said.
func (s *Server) inspectedMachine(ctx context.Context, id string, macs, bmcs []string) (*store.Node, error) {
	owner, err := ownerOf(ctx, s.Store.Port, macs)
	if err != nil {
		return nil, err
	}
	if id != "" && owner != "" && id != owner {
		return nil, notFound()
	}
	var n *store.Node
	if id != "" || owner != "" {
		if n, err = s.machine(ctx, cmp.Or(id, owner), nil); err != nil {
			return nil, err
		}
		if !n.ProvisionState.In([]provision.State{provision.InspectWait, provision.Enroll}) {
			return nil, notFound()
		}
	}
	if len(bmcs) == 0 || n != nil && hasBMC(n, bmcs) {
		return n, nil
	}
	return s.byBMC(ctx, n, bmcs)
}

// byBMC finds the node whose BMC has one of the addresses among those that wait for data.
// One that was found otherwise, or nil, stays the one when no BMC speaks against it.
func (s *Server) byBMC(ctx context.Context, known *store.Node, bmcs []string) (*store.Node, error) {
	state, page := string(provision.InspectWait), store.Page{SortKey: "uuid"}
	var found []*store.Node
	for more := true; more; {
		waiting, err := s.Store.Nodes(ctx, store.NodeQuery{Page: page, ProvisionState: &state, IncludeChildren: true})
		if err != nil {
			return nil, storeError(err)
		}
		if more = len(waiting) > 0; more {
			page.Marker = waiting[len(waiting)-1].UUID
		}
		found = append(found, slices.DeleteFunc(waiting, func(n *store.Node) bool { return !hasBMC(n, bmcs) })...)
	}
	switch {
	case len(found) == 0:
		return known, nil
	case known == nil && len(found) == 1:
		return found[0], nil
	}
	return nil, notFound()
}

// saysWhere reports whether a field of driver_info says where a BMC is. Drivers name it by their word: redfish_address
// (seal.DecidesPlace, and rackd/drivers holds them to it). Addresses with more words, as ipmi_target_address, lie behind a BMC.
func saysWhere(field string) bool {
	word, rest, _ := strings.Cut(field, "_")
	return word != "" && rest == "address"
}

// bmcAddresses are the IP addresses of the BMC of a machine. A ramdisk that finds none
// may say 0.0.0.0.
func bmcAddresses(inv agentapi.Inventory) (list []string) {
	for _, text := range []string{inv.BMCAddress, inv.BMCV6Address} {
		if at, err := netip.ParseAddr(text); err == nil && !at.IsUnspecified() {
			list = append(list, at.Unmap().String())
		}
	}
	return list
}

// hasBMC reports whether driver_info says that n's BMC has one of the addresses, which are as
// bmcAddresses returns them. Names are not resolved: central need not know what racks call their BMCs.
func hasBMC(n *store.Node, addresses []string) bool {
	for field, value := range n.DriverInfo {
		text, _ := value.(string)
		if !saysWhere(field) {
			continue
		}
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			text = u.Hostname()
		}
		at, err := netip.ParseAddr(text)
		if err == nil && slices.Contains(addresses, at.Unmap().String()) {
			return true
		}
	}
	return false
}
