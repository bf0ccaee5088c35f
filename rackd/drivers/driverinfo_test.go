package drivers

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/driverinfo"
	"github.com/ironyard/ironyard/protocol/node"
)

// inOrder is driver_info that an interface takes, by the interface's name. Between them, each of its rules applies.
var inOrder = map[string][]map[string]any{
	"ipmitool": {{"ipmi_address": "192.0.2.1", "ipmi_bridging": "dual", "ipmi_target_channel": "1", "ipmi_target_address": "2", "ipmi_transit_channel": "3", "ipmi_transit_address": "4"},
		{"ipmi_address": "192.0.2.1", "ipmi_protocol_version": "1.5"}},
	"ipmitool-socat": {{"ipmi_address": "192.0.2.1"},
		{"ipmi_address": "192.0.2.1", "ipmi_bridging": "dual", "ipmi_target_channel": "1", "ipmi_target_address": "2", "ipmi_transit_channel": "3", "ipmi_transit_address": "4"},
		{"ipmi_address": "192.0.2.1", "ipmi_protocol_version": "1.5"}},
	"redfish":     {{"redfish_address": "https://192.0.2.1", "redfish_username": "u", "redfish_password": "p"}},
	"idrac-wsman": {{"drac_address": "192.0.2.1", "drac_username": "u", "drac_password": "p"}},
	"ilo":         {{"ilo_address": "192.0.2.1", "ilo_username": "u", "ilo_password": "p", "snmp_auth_user": "u", "snmp_auth_prot_password": "12345678", "snmp_auth_priv_password": "12345678"}},
	"irmc": {{"irmc_address": "192.0.2.1", "irmc_username": "u", "irmc_password": "p"},
		{"irmc_address": "192.0.2.1", "irmc_username": "u", "irmc_password": "p", "irmc_snmp_version": "v3", "irmc_snmp_user": "u", "irmc_snmp_auth_password": "12345678", "irmc_snmp_priv_password": "12345678"},
		{"irmc_address": "192.0.2.1", "irmc_username": "u", "irmc_password": "p", "irmc_snmp_version": "v3", "irmc_snmp_security": "u", "irmc_snmp_auth_password": "12345678", "irmc_snmp_priv_password": "12345678"}},
	"snmp": {{"snmp_driver": "apc", "snmp_address": "192.0.2.1", "snmp_outlet": "1", "snmp_version": "3", "snmp_user": "u", "snmp_auth_protocol": "sha", "snmp_auth_key": "12345678",
		"snmp_priv_protocol": "aes", "snmp_priv_key": "12345678"},
		{"snmp_driver": "apc", "snmp_address": "192.0.2.1", "snmp_outlet": "1", "snmp_community": "public"}},
	"iboot":      {{"iboot_address": "192.0.2.1", "iboot_username": "u", "iboot_password": "p"}},
	"wol":        {{}},
	"ucsm":       {{"ucs_address": "192.0.2.1", "ucs_username": "u", "ucs_password": "p", "ucs_service_profile": "org-root/ls-a"}},
	"cimc":       {{"cimc_address": "192.0.2.1", "cimc_username": "u", "cimc_password": "p"}},
	"asrockrack": {{"asrockrack_address": "192.0.2.1", "asrockrack_username": "u", "asrockrack_password": "p"}},
	"amt":        {{"amt_address": "192.0.2.1", "amt_username": "u", "amt_password": "p", "amt_protocol": "https"}},
	"virtualbox": {{"virtualbox_host": "192.0.2.1", "virtualbox_vmname": "a", "virtualbox_protocol": "https"}},
	"ssh":        {{"ssh_address": "192.0.2.1", "ssh_username": "u", "ssh_password": "p", "ssh_virt_type": "virsh", "ssh_host_key": "false"}},
	"seamicro":   {{"seamicro_api_endpoint": "https://192.0.2.1/v2.0", "seamicro_username": "u", "seamicro_password": "p", "seamicro_server_id": "1/0"}},
	"msftocs":    {{"msftocs_base_url": "https://192.0.2.1", "msftocs_blade_id": "1", "msftocs_username": "u", "msftocs_password": "p"}},
	"rpc":        {{"rpc_url": "https://192.0.2.1/power", "rpc_host": "a"}},
	"libvirt": {{"libvirt_uri": "qemu+ssh://192.0.2.1/system", "libvirt_domain": "a", "libvirt_password": "p", "libvirt_host_key": "false"},
		{"libvirt_uri": "qemu+tls://192.0.2.1/system", "libvirt_domain": "a"}},
	"ipxe":                  {ownFiles},
	"http":                  {{}},
	"redfish-virtual-media": {ownFiles, {"deploy_iso": "http://192.0.2.9/i.iso"}, {"deploy_iso": "http://192.0.2.9/i.iso", "config_via_removable": "true"}},
	"redfish-https":         {ownFiles, {"deploy_iso": "http://192.0.2.9/i.iso"}},
	"ilo-uefi-https":        {ownFiles, {"deploy_iso": "https://192.0.2.9/i.iso"}},
	"direct":                {{"image_server_hosts": "192.0.2.9"}, {"image_server_hosts": "192.0.2.9", "image_server_auth_strategy": "http_basic", "image_server_user": "u", "image_server_password": "p"}},
}

// ownFiles are a node's own kernel and ramdisk.
var ownFiles = map[string]any{"deploy_kernel": "http://192.0.2.9/k", "deploy_ramdisk": "http://192.0.2.9/r"}

// like are interfaces that read the same fields as another one.
var like = map[string]string{"intel-ipmitool": "ipmitool", "ipmitool-shellinabox": "ipmitool-socat", "idrac-redfish": "redfish", "redfish-serial": "redfish",
	"redfish-graphical": "redfish", "idrac": "idrac-wsman", "ilo5": "ilo", "ilo console by SSH": "ilo", "ilo console over LAN": "ilo", "irmc console over LAN": "irmc", "libvirt-graphical": "libvirt",
	"pxe": "ipxe", "http-ipxe": "ipxe", "ilo-ipxe": "ipxe", "ilo-pxe": "ipxe", "irmc-pxe": "ipxe",
	"idrac-redfish-virtual-media": "redfish-virtual-media", "ilo-virtual-media": "redfish-virtual-media", "irmc-virtual-media": "redfish-virtual-media",
	"iscsi": "direct", "ansible": "direct", "autodetect": "direct", "bootc": "direct"}

// leftToRacks are refusals of validate that central cannot know, or that are of more than the one value, by a part of their words.
var leftToRacks = map[string]string{
	"or the name of a PEM file: this rackd's folder": "the files are the rack's",
	"leads to 127.0.0.1, a loopback address":         "the networks are the rack's",
	"the folder of rackd's --ansible-dir":            "the files are the rack's",
	"is not used here, because":                      "a newer rackd may use another cipher suite",
	"not provided, which ipmi_bridging":              "another field is missing",
	"Serial over LAN only works with IPMI protocol":  "the console interface may be what is to change",
	"Cipher suites cannot be used with IPMI 1.5":     "one of two fields is to go",
	"is of IPMI 2.0: remove it or":                   "one of two fields is to go",
	"properties to be set for version":               "another field is missing",
	"fields from HTTP(S) basic auth config":          "another field is missing",
	"give one":                                       "one of two fields is to go",
	"requires `driver_info/snmp_user` to be set":     "another field is missing",
	"give those as https URLs, and remove the field": "one of two fields is to go",
	"rackd puts the parameters into the image":       "deploy_iso may follow",
	"or neither":                                                      "another field is missing",
	"libvirt's TLS carries no display":                                "the console interface may be what is to change",
	"without TLS, which shows no key":                                 "another field says whether there is TLS",
	"give seconds between 0 and 86400":                                "the fields of fake hardware have no fixed names",
	"and the container of the instance's user is started beside them": "the deploy interface may be what is to change",
}

// odd are values of which the rules and the drivers must think the same, right or wrong.
var odd = []any{"abc", "0", "1", "-1", "17", "80", "443", "8000", "65536", "623.5", 9.0, true, "true", "https", "ftp", "http://192.0.2.1", "https://u:p@192.0.2.1", "https://192.0.2.1/x", "2001:db8::1", "[2001:db8::1]",
	"[", "a b", "host.example", "host.example:443", "u@host", "sha", "SHA", "AES", "des", "trust", "session", "basic", "v2c", "2c", "3", "1.5", "single", "no", "pin", "Pin ", "1/2", "/a/../b", "a?b", "org-root/ls-b",
	"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "0123456789", "0x80001f88", strings.Repeat("ab", 40), "qemu:///system", "qemu+tls://192.0.2.1/system", "qemu+tcp://192.0.2.1/system", "qemu+ssh:///system", "qemu+unix://192.0.2.1/system", "qemu+ssh://u:p@192.0.2.1/system", "qemu+ssh://192.0.2.1/system#x", "+ssh://192.0.2.1/system",
	"FALSE", "verify", "True", "Always", "http_basic", "nfs://192.0.2.1/x", "tftp://192.0.2.1/x", "file:///x", "oci://192.0.2.1/x", ".example:8080, 192.0.2.1", "-x", "host..example", `a"b`, "a$b", "ipa-api-url=http://192.0.2.1", "ipa-x=1", "quiet",
	"00:11:22:33:44:55", "/usr/bin/python3", "{{x}}", strings.Repeat("a", 1000), "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHz1CPEtDcDqZRSaMhVaZLJ2aiAmtgxAX1pVQBeNeIcB", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----"}

// hasAll is a rack with all ramdisks.
type hasAll struct{}

func (hasAll) Lacks(*node.Document, bool) error        { return nil }
func (hasAll) LacksProgram(*node.Document, bool) error { return nil }
func (hasAll) Arch(*node.Document, bool) string        { return "x86_64" }
func (hasAll) Identity() string                        { return "all" }

// What central refuses when a field is set is what `validate` says, and nothing that validate takes. What validate refuses of one value,
// central refuses, too.
func TestCentralRefusesWhatValidateDoes(t *testing.T) {
	o := all
	o.Ramdisks, o.Media, o.HTTPS, o.AnsibleFolder = hasAll{}, func(string) error { return nil }, true, t.TempDir()
	for name, mode := range map[string]os.FileMode{"ansible-playbook": 0o700, "deploy.yaml": 0o600} {
		if err := os.WriteFile(filepath.Join(o.AnsibleFolder, name), []byte("#!/bin/false\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", o.AnsibleFolder)
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	c := comparison{t: t, set: s, ruled: map[string][]string{}, tried: map[string]bool{}, left: map[string]int{}, seen: map[string]bool{}}
	driverinfo.Each(func(field string, readers []string) { c.ruled[field] = append(c.ruled[field], readers...) })
	for name, kinds := range s.Describe() {
		for kind, impls := range kinds {
			for _, impl := range impls {
				c.compare(name, kind, impl)
			}
		}
	}
	driverinfo.Each(func(field string, readers []string) {
		for _, reader := range readers {
			if !c.tried[field+" "+reader] {
				t.Errorf("no interface %s has read %s", reader, field)
			}
		}
	})
	for words := range leftToRacks {
		if c.left[words] == 0 {
			t.Errorf("validate has not said %q of any value", words)
		}
	}
	if c.refused < 1000 || c.taken < 1000 {
		t.Errorf("%d values refused and %d taken: that compares nothing", c.refused, c.taken)
	}
	t.Logf("%d values refused, %d taken, left to racks: %v", c.refused, c.taken, c.left)
}

// comparison is of central's rules with what the interfaces of a set say.
type comparison struct {
	t              *testing.T
	set            *Set
	ruled          map[string][]string // readers by field
	tried          map[string]bool
	left           map[string]int // by the words of leftToRacks
	seen           map[string]bool
	refused, taken int
}

// compare compares them for one interface.
func (c *comparison) compare(name, kind, impl string) {
	n := &node.Document{UUID: "5d6dff26-6d0c-4d9d-a6b3-1d9a7d1f9d2f", Driver: name, Interfaces: map[string]string{kind: impl}, Ports: []node.Port{{Address: "52:54:00:00:00:01", PXEEnabled: true}},
		Properties: map[string]any{"capabilities": "boot_mode:uefi"}, InstanceInfo: map[string]any{"image_source": "https://192.0.2.9/i.raw", "image_checksum": strings.Repeat("ab", 32)}}
	if impl == "bootc" {
		n.InstanceInfo = map[string]any{"image_source": "oci://192.0.2.9/i:1"}
	}
	hw, err := c.set.Resolve(n)
	if err != nil {
		c.t.Fatal(err)
	}
	own := hw.Kinds()[kind].Impl
	fields := own.Properties()
	reader := driverinfo.Reader(name, kind, impl)
	bases := inOrder[reader]
	if bases == nil {
		bases = inOrder[like[reader]]
	}
	if same := fmt.Sprintf("%s %s %T", kind, reader, own); c.seen[same] {
		return // the same interface of another hardware type
	} else {
		c.seen[same] = true
	}
	if len(fields) == 0 || bases == nil {
		if len(fields) > 0 && !slices.Contains(takesAll, reader) {
			c.t.Errorf("%s, %s interface %s reads %d fields of driver_info: say in this test what it takes", name, kind, impl, len(fields))
		}
		return
	}
	for field := range fields {
		if c.ruled[field] != nil && !slices.Contains(c.ruled[field], reader) && boundByFew[field] == "" {
			c.t.Errorf("%s, %s interface %s reads %s, and only %v are judged by it", name, kind, impl, field, c.ruled[field])
		}
	}
	for _, base := range bases {
		validate := func(info map[string]any) string {
			n.DriverInfo = info
			if err := own.Validate(n); err != nil {
				return err.Error()
			}
			return ""
		}
		usual := validate(base)
		for field := range c.ruled {
			if _, reads := fields[field]; !reads && !slices.Contains(c.ruled[field], reader) {
				continue
			}
			c.tried[field+" "+reader] = true
			for _, value := range odd {
				info := maps.Clone(base)
				info[field] = value
				wrong := driverinfo.NewlyWrong(driverinfo.Info{UUID: n.UUID, Driver: name, Fields: info}, base, map[string]string{kind: impl}, "******")
				c.judge(fmt.Sprintf("%s, %s interface %s, driver_info %s %.200v", name, kind, impl, field, value), wrong, validate(info), usual)
			}
		}
		for field := range fields {
			if c.ruled[field] != nil {
				continue
			}
			for _, value := range odd {
				info := maps.Clone(base)
				info[field] = value
				c.judge(fmt.Sprintf("%s, %s interface %s, driver_info %s %.200v", name, kind, impl, field, value), nil, validate(info), usual)
			}
		}
	}
}

// judge compares what central and validate say of a value. usual is what validate says of what is in order.
func (c *comparison) judge(of string, wrong []driverinfo.Refusal, said, usual string) {
	if strings.ContainsAny(said, "\r\n") || len(wrong) > 0 && strings.ContainsAny(wrong[0].Why, "\r\n") {
		c.t.Errorf("%s is told with line breaks: %q %q", of, wrong, said)
	}
	switch {
	case len(wrong) > 0 && !strings.Contains(said, wrong[0].Why):
		c.t.Errorf("%s:\ncentral refuses it: %q\nvalidate says:     %q (and %q of what is in order)", of, wrong, said, usual)
	case len(wrong) > 0:
		c.refused++
	case said == "" || said == usual:
		c.taken++
	default:
		for words := range leftToRacks {
			if strings.Contains(said, words) {
				c.left[words]++
				return
			}
		}
		c.t.Errorf("%s:\ncentral takes it, and validate says: %q (and %q of what is in order)", of, said, usual)
	}
}

// takesAll are interfaces whose Validate judges no field of driver_info, or none with a fixed name.
var takesAll = []string{"fake", "custom-agent"}

// boundByFew are fields that some of their readers judge, with the reason why the others do not.
var boundByFew = map[string]string{
	"ilo_username": "IPMI's lengths are of the console over LAN", "ilo_password": "IPMI's lengths are of the console over LAN",
	"irmc_username": "IPMI's lengths are of the console over LAN", "irmc_password": "IPMI's lengths are of the console over LAN",
	"rescue_kernel": "judged by the rescue interface", "rescue_ramdisk": "judged by the rescue interface",
	"ironyard_min_disk_bytes": "bootc writes no image of known size",
}
