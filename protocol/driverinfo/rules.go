package driverinfo

import (
	"slices"
	"strings"
)

// Interfaces by the driver that they are of.
var (
	ipmi     = []string{"ipmitool", "intel-ipmitool", "ipmitool-socat", "ipmitool-shellinabox"}
	redfish  = []string{"redfish", "idrac-redfish", "redfish-serial", "redfish-graphical"}
	drac     = []string{"idrac", "idrac-wsman"}
	ilo      = []string{"ilo", "ilo5"}
	irmc     = []string{"irmc"}
	snmp     = []string{"snmp"}
	iboot    = []string{"iboot"}
	wol      = []string{"wol"}
	ucsm     = []string{"ucsm"}
	cimc     = []string{"cimc"}
	amt      = []string{"amt"}
	vbox     = []string{"virtualbox"}
	ssh      = []string{"ssh"}
	seamicro = []string{"seamicro"}
	msftocs  = []string{"msftocs"}
	rpc      = []string{"rpc"}
	libvirt  = []string{"libvirt", "libvirt-graphical"}
)

// longestOfIBoot is how long the user of an iBoot may be; 16 bytes are what IPMI can send (section 22.30).
const longestOfIBoot, longestOfIPMI = 20, 16

// SNMP's protocols and types of PDU, in the order in which refusals list them.
var (
	AuthProtocols = []string{"none", "md5", "sha", "sha224", "sha256", "sha384", "sha512"}
	PrivProtocols = []string{"none", "des", "aes", "aes192", "aes256", "aes192blmt", "aes256blmt"}
	PDUs          = []string{"apc", "apc_masterswitch", "apc_masterswitchplus", "apc_rackpdu", "aten", "baytech_mrp27", "cyberpower", "eatonpower",
		"raritan_pdu2", "servertech_sentry3", "servertech_sentry4", "teltronix", "vertivgeist_pdu", "auto"}
)

var rules = map[string][]rule{
	"ipmi_address":              {{readers: ipmi, wrong: ipmiAddress}},
	"ipmi_port":                 {{readers: ipmi, wrong: bare(port)}},
	"ipmi_terminal_port":        {{readers: ipmi, wrong: bare(port)}},
	"ipmi_username":             {{readers: ipmi, wrong: longest(longestOfIPMI, "%s has more than 16 bytes, which IPMI cannot send")}},
	"ipmi_priv_level":           {{readers: ipmi, wrong: privilege}},
	"ipmi_protocol_version":     {{readers: ipmi, wrong: ipmiVersion}},
	"ipmi_cipher_suite":         {{readers: ipmi, wrong: cipherSuite}},
	"ipmi_hex_kg_key":           {{readers: ipmi, wrong: ipmiKey}},
	"ipmi_bridging":             {{readers: ipmi, wrong: bridging}},
	"ipmi_local_address":        {{readers: ipmi, reads: bridged("single", "dual"), wrong: number(0, 255)}},
	"ipmi_target_channel":       {{readers: ipmi, reads: bridged("single", "dual"), wrong: number(0, 15)}},
	"ipmi_target_address":       {{readers: ipmi, reads: bridged("single", "dual"), wrong: number(0, 255)}},
	"ipmi_transit_channel":      {{readers: ipmi, reads: bridged("dual"), wrong: number(0, 15)}},
	"ipmi_transit_address":      {{readers: ipmi, reads: bridged("dual"), wrong: number(0, 255)}},
	"ipmi_disable_boot_timeout": {{readers: ipmi, wrong: truth}},
	"ipmi_force_boot_device":    {{readers: ipmi, wrong: truth}},

	"redfish_address":   {{readers: redfish, wrong: redfishAddress}},
	"redfish_system_id": {{readers: redfish, wrong: redfishSystem}},
	"redfish_auth_type": {{readers: redfish, wrong: give("auto, session or basic", "auto", "session", "basic")}},
	"redfish_identity":  {{readers: redfish, wrong: give("trust or ignore", "trust", "ignore")}},
	"redfish_verify_ca": {{readers: redfish, wrong: authorities}},

	"drac_address":   {{readers: drac, wrong: dracAddress}},
	"drac_port":      {{readers: drac, wrong: validPort}},
	"drac_protocol":  {{readers: drac, wrong: says("'drac_protocol' must be either 'http' or 'https'.", "http", "https")}},
	"drac_identity":  {{readers: drac, wrong: give("trust or ignore", "trust", "ignore")}},
	"drac_verify_ca": {{readers: drac, wrong: authorities}},

	"ilo_address":    {{readers: ilo, wrong: vendorHost}},
	"client_port":    {{readers: ilo, wrong: validPort}},
	"console_port":   {{readers: ilo, wrong: validPort}},
	"client_timeout": {{readers: ilo, wrong: iloTimeout}},
	"ilo_identity":   {{readers: ilo, wrong: give("trust or ignore", "trust", "ignore")}},
	"ilo_verify_ca":  {{readers: ilo, reads: withoutFile, wrong: authorities}},
	"ca_file":        {{readers: ilo, wrong: authoritiesFile}},

	"irmc_address":        {{readers: irmc, wrong: vendorHost}},
	"irmc_port":           {{readers: irmc, wrong: irmcPort}},
	"irmc_auth_method":    {{readers: irmc, wrong: irmcWord("basic", "digest")}},
	"irmc_sensor_method":  {{readers: irmc, wrong: irmcWord("ipmitool", "scci")}},
	"irmc_client_timeout": {{readers: irmc, wrong: irmcTimeout}},
	"irmc_snmp_version":   {{readers: irmc, wrong: irmcSNMPVersion}},
	"irmc_snmp_port":      {{readers: irmc, wrong: validPort}},
	"irmc_identity":       {{readers: irmc, wrong: give("trust or ignore", "trust", "ignore")}},
	"irmc_verify_ca":      {{readers: irmc, wrong: authorities}},

	"snmp_driver":  {{readers: snmp, wrong: pduType}},
	"snmp_address": {{readers: snmp, wrong: pduAddress}},
	"snmp_port":    {{readers: snmp, wrong: pduPort}},
	"snmp_outlet":  {{readers: snmp, wrong: outlet}},
	"snmp_version": {{readers: snmp, wrong: snmpVersion}},
	"snmp_auth_protocol": {
		{readers: snmp, reads: version3, wrong: snmpProtocol("authentication", AuthProtocols)},
		{readers: ilo, reads: withUser, wrong: iloProtocol("MD5", "SHA")}},
	"snmp_priv_protocol":      {{readers: snmp, reads: version3, wrong: snmpProtocol("privacy", PrivProtocols)}},
	"snmp_auth_priv_protocol": {{readers: ilo, reads: withUser, wrong: iloProtocol("AES", "DES")}},
	"snmp_context_engine_id":  {{readers: snmp, reads: version3, wrong: engineID}},

	"iboot_address":  {{readers: iboot, wrong: host("iboot_port", strict)}},
	"iboot_username": {{readers: iboot, wrong: longest(longestOfIBoot, "%s and iboot_password have 20 characters at most")}},
	"iboot_port":     {{readers: iboot, wrong: port}},
	"iboot_relay_id": {{readers: iboot, wrong: relay}},

	"wol_host": {{readers: wol, wrong: wolHost}},
	"wol_port": {{readers: wol, wrong: port}},

	"ucs_address":         {{readers: ucsm, wrong: host("ucs_port", paired)}},
	"ucs_port":            {{readers: ucsm, wrong: port}},
	"ucs_verify_ca":       {{readers: ucsm, wrong: authorities}},
	"ucs_service_profile": {{readers: ucsm, wrong: ucsProfile}},
	"cimc_address":        {{readers: cimc, wrong: host("cimc_port", paired)}},
	"cimc_port":           {{readers: cimc, wrong: port}},
	"cimc_verify_ca":      {{readers: cimc, wrong: authorities}},
	"amt_address":         {{readers: amt, wrong: host("amt_port", paired)}},
	"amt_port":            {{readers: amt, wrong: port}},
	"amt_protocol":        {{readers: amt, wrong: amtProtocol}},
	"virtualbox_host":     {{readers: vbox, wrong: host("virtualbox_port", paired)}},
	"virtualbox_port":     {{readers: vbox, wrong: port}},
	"virtualbox_protocol": {{readers: vbox, wrong: give("http or https", "http", "https")}},
	"ssh_address":         {{readers: ssh, wrong: host("ssh_port", paired)}},
	"ssh_port":            {{readers: ssh, wrong: port}},
	"ssh_virt_type":       {{readers: ssh, wrong: virtType}},
	"ssh_host_key":        {{readers: ssh, wrong: hostKey}},
	"ssh_key_filename":    {{readers: ssh, wrong: keyFile}},
	"vbox_use_headless":   {{readers: ssh, wrong: headless}},

	"libvirt_uri":         {{readers: libvirt, wrong: libvirtURI}},
	"libvirt_host_key":    {{readers: libvirt, reads: bySSH, wrong: hostKey}},
	"libvirt_private_key": {{readers: libvirt, reads: bySSH, wrong: privateKey}},
	"libvirt_verify_ca":   {{readers: libvirt, wrong: authorities}},

	"seamicro_server_id":    {{readers: seamicro, wrong: seamicroServer}},
	"seamicro_api_endpoint": {{readers: seamicro, wrong: seamicroEndpoint}},
	"seamicro_api_version":  {{readers: seamicro, wrong: seamicroVersion}},
	"msftocs_base_url":      {{readers: msftocs, wrong: msftocsURL}},
	"msftocs_blade_id":      {{readers: msftocs, wrong: blade}},
	"rpc_url":               {{readers: rpc, wrong: rpcURL}},
	"rpc_algorithm":         {{readers: rpc, wrong: give("sha256 or sha512", "sha256", "sha512")}},
}

func bridged(kinds ...string) func(Info) bool {
	return func(i Info) bool { return slices.Contains(kinds, i.text("ipmi_bridging")) }
}

func version3(i Info) bool { return i.text("snmp_version") == "3" }

// withoutFile: an iLO's ca_file counts before ilo_verify_ca.
func withoutFile(i Info) bool { return i.text("ca_file") == "" }

// withUser: an iLO is asked by SNMP where the node has a user for it.
func withUser(i Info) bool { return i.text("snmp_auth_user") != "" }

// bySSH: libvirt is reached by SSH, which alone has keys of hosts, and users' keys without a certificate.
func bySSH(i Info) bool {
	scheme, _, _ := strings.Cut(i.text("libvirt_uri"), ":")
	return strings.HasSuffix(strings.ToLower(scheme), "+ssh")
}
