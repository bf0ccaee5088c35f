package drivers

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/driverinfo"
	"github.com/ironyard/ironyard/protocol/node"
)

// inOrder is driver_info that an interface takes, by the interface's name.
var inOrder = map[string]map[string]any{
	"ipmitool":    {"ipmi_address": "192.0.2.1", "ipmi_bridging": "dual", "ipmi_target_channel": "1", "ipmi_target_address": "2", "ipmi_transit_channel": "3", "ipmi_transit_address": "4"},
	"redfish":     {"redfish_address": "https://192.0.2.1"},
	"idrac-wsman": {"drac_address": "192.0.2.1", "drac_username": "u", "drac_password": "p"},
	"ilo":         {"ilo_address": "192.0.2.1", "ilo_username": "u", "ilo_password": "p", "snmp_auth_user": "u", "snmp_auth_prot_password": "12345678", "snmp_auth_priv_password": "12345678"},
	"irmc":        {"irmc_address": "192.0.2.1", "irmc_username": "u", "irmc_password": "p"},
	"snmp": {"snmp_driver": "apc", "snmp_address": "192.0.2.1", "snmp_outlet": "1", "snmp_version": "3", "snmp_user": "u", "snmp_auth_protocol": "sha", "snmp_auth_key": "12345678",
		"snmp_priv_protocol": "aes", "snmp_priv_key": "12345678"},
	"iboot":      {"iboot_address": "192.0.2.1", "iboot_username": "u", "iboot_password": "p"},
	"wol":        {},
	"ucsm":       {"ucs_address": "192.0.2.1", "ucs_username": "u", "ucs_password": "p", "ucs_service_profile": "org-root/ls-a"},
	"cimc":       {"cimc_address": "192.0.2.1", "cimc_username": "u", "cimc_password": "p"},
	"amt":        {"amt_address": "192.0.2.1", "amt_username": "u", "amt_password": "p"},
	"virtualbox": {"virtualbox_host": "192.0.2.1", "virtualbox_vmname": "a"},
	"ssh":        {"ssh_address": "192.0.2.1", "ssh_username": "u", "ssh_password": "p", "ssh_virt_type": "virsh", "ssh_host_key": "false"},
	"seamicro":   {"seamicro_api_endpoint": "http://192.0.2.1/v2.0", "seamicro_username": "u", "seamicro_password": "p", "seamicro_server_id": "1/0"},
	"msftocs":    {"msftocs_base_url": "http://192.0.2.1", "msftocs_blade_id": "1", "msftocs_username": "u", "msftocs_password": "p"},
	"rpc":        {"rpc_url": "http://192.0.2.1/power", "rpc_host": "a"},
	"libvirt":    {"libvirt_uri": "qemu+ssh://192.0.2.1/system", "libvirt_domain": "a", "libvirt_password": "p", "libvirt_host_key": "false"},
}

// like are interfaces that read the same fields as another one.
var like = map[string]string{"intel-ipmitool": "ipmitool", "ipmitool-socat": "ipmitool", "ipmitool-shellinabox": "ipmitool", "idrac-redfish": "redfish", "redfish-serial": "redfish",
	"redfish-graphical": "redfish", "idrac": "idrac-wsman", "ilo5": "ilo",
	"libvirt-graphical": "libvirt"}

// odd are values of which the rules and the drivers must think the same, right or wrong.
var odd = []any{"abc", "0", "1", "-1", "17", "80", "443", "8000", "65536", "623.5", 9.0, true, "true", "https", "ftp", "http://192.0.2.1", "https://u:p@192.0.2.1", "https://192.0.2.1/x", "2001:db8::1", "[2001:db8::1]",
	"[", "a b", "host.example", "host.example:443", "u@host", "sha", "SHA", "AES", "des", "trust", "session", "basic", "v2c", "2c", "3", "1.5", "single", "no", "pin", "Pin ", "1/2", "/a/../b", "a?b", "org-root/ls-b",
	"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "0123456789", "0x80001f88", strings.Repeat("ab", 40), "qemu:///system", "qemu+tls://192.0.2.1/system", "qemu+tcp://192.0.2.1/system", "qemu+ssh:///system", "qemu+unix://192.0.2.1/system", "qemu+ssh://u:p@192.0.2.1/system", "qemu+ssh://192.0.2.1/system#x", "+ssh://192.0.2.1/system",
	"FALSE", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHz1CPEtDcDqZRSaMhVaZLJ2aiAmtgxAX1pVQBeNeIcB", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----"}

// What central refuses when a field is set is what `validate` says, and nothing that validate takes.
func TestCentralRefusesWhatValidateDoes(t *testing.T) {
	s, err := Open(all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	ruled := map[string][]string{}
	driverinfo.Each(func(field string, readers []string) { ruled[field] = append(ruled[field], readers...) })
	refused, taken, tried := 0, 0, map[string]bool{}
	for name, kinds := range s.Describe() {
		for kind, impls := range kinds {
			for _, impl := range impls {
				reader := driverinfo.Reader(name, kind, impl)
				base, known := inOrder[reader]
				if base == nil {
					base, known = inOrder[like[reader]]
				}
				if !known {
					continue
				}
				n := &node.Document{UUID: "5d6dff26-6d0c-4d9d-a6b3-1d9a7d1f9d2f", Driver: name, Interfaces: map[string]string{kind: impl}, Ports: []node.Port{{Address: "52:54:00:00:00:01"}}}
				hw, err := s.Resolve(n)
				if err != nil {
					t.Fatal(err)
				}
				validate := func(info map[string]any) string {
					n.DriverInfo = info
					if err := hw.Kinds()[kind].Impl.Validate(n); err != nil {
						return err.Error()
					}
					return ""
				}
				fields := hw.Kinds()[kind].Impl.Properties()
				if len(fields) == 0 {
					continue // of another kind, with a name that means nothing: no-console
				}
				for field := range fields {
					if ruled[field] != nil && !slices.Contains(ruled[field], reader) {
						t.Errorf("%s, %s interface %s reads %s, and only %v are judged by it", name, kind, impl, field, ruled[field])
					}
				}
				usual := validate(base)
				driverinfo.Each(func(field string, readers []string) {
					if !slices.Contains(readers, reader) {
						return
					}
					tried[field+" "+reader] = true
					for _, value := range odd {
						info := maps.Clone(base)
						info[field] = value
						wrong := driverinfo.NewlyWrong(driverinfo.Info{UUID: n.UUID, Driver: name, Fields: info}, base, map[string]string{kind: impl}, "******")
						said := validate(info)
						switch {
						case len(wrong) == 0:
							taken++
						case !strings.Contains(said, wrong[0].Why):
							t.Errorf("%s, %s interface %s, driver_info %s %v:\ncentral refuses it: %q\nvalidate says:     %q (and %q of what is in order)", name, kind, impl, field, value, wrong, said, usual)
						default:
							refused++
						}
					}
				})
			}
		}
	}
	driverinfo.Each(func(field string, readers []string) {
		for _, reader := range readers {
			if !tried[field+" "+reader] {
				t.Errorf("no interface %s has read %s", reader, field)
			}
		}
	})
	if refused < 1000 || taken < 1000 {
		t.Errorf("%d values refused and %d taken: that compares nothing", refused, taken)
	}
	t.Logf("%d values refused, %d taken", refused, taken)
}
