package redfish

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
)

// interfaces reads the network interfaces with a MAC address: those of the system and, where it lists none, those of the network
// adapters in its chassis.
func (v *survey) interfaces(s *System, p parts) ([]any, error) {
	type nic struct {
		ID         string `json:"Id"`
		MACAddress string
		SpeedMbps  quantity
	}
	list := []any{}
	err := each(v, p.EthernetInterfaces.Path, func(n nic) {
		if isMAC(n.MACAddress) {
			list = append(list, interfaceOf(n.ID, n.MACAddress, int64(n.SpeedMbps)))
		}
	})
	if err != nil || len(list) > 0 {
		return list, err
	}
	return v.adapters(s, p)
}

// isMAC tells a MAC address from what BMCs write where they know none: zeros, "not available".
func isMAC(text string) bool {
	mac, err := net.ParseMAC(text)
	return err == nil && len(mac) == 6 && strings.Trim(text, "0:-") != ""
}

// interfaceOf is an interface as ramdisks tell it.
func interfaceOf(name, mac string, speed int64) map[string]any {
	found := map[string]any{"name": name, "mac_address": strings.ToLower(mac)}
	if speed > 0 {
		found["speed_mbps"] = speed
	}
	return found
}

// mostChassis bounds how many chassis are looked at: machines with GPUs show each of their modules as one.
const mostChassis = 100

// chassis is a chassis, as far as its network adapters are found by it.
type chassis struct {
	NetworkAdapters ref
	Links           struct {
		ComputerSystems, Contains []ref
		ContainedBy               oneLink
	}
}

// chassisOf are the chassis that a system links to. Where it links to none, and the BMC has no other system, all are its.
func (v *survey) chassisOf(p parts) ([]ref, error) {
	if len(p.Links.Chassis) > 0 {
		return slices.Clone(p.Links.Chassis), nil
	}
	if systems, err := systemPaths(v.c); err != nil || len(systems) > 1 {
		return nil, err
	}
	all, err := members(v.c, "/redfish/v1/Chassis")
	if status(err) == http.StatusNotFound {
		return nil, nil
	}
	return all, err
}

// naming are the chassis that name a system, and no other one. OpenBMC of some boards links a system to the chassis of its BMC alone, and
// not to those of its adapters and sensors, which name the system.
func (v *survey) naming(s *System) (list []ref, err error) {
	all, err := members(v.c, "/redfish/v1/Chassis")
	if status(err) == http.StatusNotFound {
		return nil, nil
	}
	for _, at := range all[:min(len(all), mostChassis)] {
		err = errors.Join(err, items(v, []ref{at}, func(k chassis) {
			if k.namesOnly(s) {
				list = append(list, at)
			}
		}))
	}
	return list, err
}

// namesOnly reports whether a chassis names that system, and no other one.
func (k chassis) namesOnly(s *System) bool {
	of := k.Links.ComputerSystems
	return len(of) == 1 && samePath(of[0].Path, s.Path)
}

// adapters reads the functions and ports of the network adapters in the system's chassis, in those that these lie in, and in those
// that lie in them; where there are none, in those that name the system alone. A chassis that names other systems only is another
// machine's.
func (v *survey) adapters(s *System, p parts) ([]any, error) {
	list := []any{}
	todo, err := v.chassisOf(p)
	if err != nil {
		return nil, err
	}
	seen, named := map[string]bool{}, false
	for len(seen) < mostChassis {
		if len(todo) == 0 && len(list) == 0 && !named {
			named = true
			if todo, err = v.naming(s); err != nil {
				return nil, err
			}
		}
		if len(todo) == 0 {
			break
		}
		at := todo[0]
		todo = todo[1:]
		if seen[at.Path] || at.Path == "" {
			continue
		}
		seen[at.Path] = true
		var failed error
		err := items(v, []ref{at}, func(k chassis) {
			of := k.Links.ComputerSystems
			if len(of) > 0 && !slices.ContainsFunc(of, func(r ref) bool { return samePath(r.Path, s.Path) }) {
				return
			}
			todo = append(append(todo, k.Links.ContainedBy.ref), k.Links.Contains...)
			failed = each(v, k.NetworkAdapters.Path, func(a adapter) {
				found, err := v.adapter(a)
				list, failed = append(list, found...), errors.Join(failed, err)
			})
		})
		if err = errors.Join(err, failed); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// samePath compares paths as BMCs do, which write one path in several ways.
func samePath(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "/"), strings.TrimSuffix(b, "/"))
}

// adapter is a network adapter.
type adapter struct {
	ID                                          string `json:"Id"`
	NetworkDeviceFunctions, Ports, NetworkPorts ref
}

// adapter reads the interfaces of a network adapter: its functions, or its ports where they have no address.
func (v *survey) adapter(a adapter) (list []any, err error) {
	take := func(id, mac string, speed int64) {
		if isMAC(mac) {
			list = append(list, interfaceOf(a.ID+"/"+id, mac, speed))
		}
	}
	err = each(v, a.NetworkDeviceFunctions.Path, func(f struct {
		ID       string `json:"Id"`
		Ethernet struct{ MACAddress, PermanentMACAddress string }
	}) {
		take(f.ID, cmp.Or(f.Ethernet.PermanentMACAddress, f.Ethernet.MACAddress), 0)
	})
	if err != nil || len(list) > 0 {
		return list, err
	}
	type port struct {
		ID                         string `json:"Id"`
		CurrentSpeedGbps           quantity
		AssociatedNetworkAddresses []string
		Ethernet                   struct{ AssociatedMACAddresses []string }
	}
	ports := func(p port) {
		for _, mac := range append(p.Ethernet.AssociatedMACAddresses, p.AssociatedNetworkAddresses...) {
			if isMAC(mac) {
				take(p.ID, mac, int64(p.CurrentSpeedGbps*1000))
				return
			}
		}
	}
	if err := each(v, cmp.Or(a.Ports.Path, a.NetworkPorts.Path), ports); err != nil {
		return nil, err
	}
	return list, nil
}
