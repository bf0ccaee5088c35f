package driverinfo

import (
	"slices"
	"strings"
)

// Interfaces by the driver that they are of.
var (
	ipmi     = []string{"ipmitool", "intel-ipmitool", "ipmitool-socat", "ipmitool-shellinabox"}
	redfish  = []string{"redfish", "idrac-redfish", redfishSerial, "redfish-graphical"}
	drac     = []string{"idrac", "idrac-wsman"}
	ilo      = []string{"ilo", "ilo5", iloSerial, iloOverLAN}
	irmc     = []string{"irmc", irmcOverLAN}
	snmp     = []string{"snmp"}
	iboot    = []string{"iboot"}
	wol      = []string{"wol"}
	ucsm     = []string{"ucsm"}
	cimc     = []string{"cimc"}
	amt      = []string{"amt"}
	vbox     = []string{"virtualbox"}
	ssh      = []string{"ssh"}
	asrock   = []string{"asrockrack"}
	seamicro = []string{"seamicro"}
	msftocs  = []string{"msftocs"}
	rpc      = []string{"rpc"}
	libvirt  = []string{"libvirt", "libvirt-graphical"}

	// Boot interfaces: over the network, where all but http load files of the node's own; and of an image, from a drive or by HTTP.
	loaders  = []string{"ipxe", "pxe", "http-ipxe", "ilo-ipxe", "ilo-pxe", "irmc-pxe"}
	drives   = []string{"redfish-virtual-media", "idrac-redfish-virtual-media", "ilo-virtual-media", "irmc-virtual-media"}
	programs = []string{"http"}
	byHTTP   = []string{"redfish-https"}
	byHTTPS  = []string{"ilo-uefi-https"}
	byURL    = slices.Concat(byHTTP, byHTTPS)
	bySome   = slices.Concat(drives, byHTTP) // http will do
	images   = slices.Concat(drives, byURL)
	boots    = slices.Concat(loaders, programs, images)

	// Deploy interfaces that bring an image into the rack's cache, and those that write it to a disk.
	fetches = []string{"direct", "iscsi", "ansible", "autodetect", "bootc"}
	writes  = []string{"direct", "iscsi", "ansible", "autodetect"}
	plays   = []string{"ansible"}
)

// Consoles that read other fields than the other interfaces of their driver.
const (
	redfishSerial = "redfish-serial"
	iloSerial     = "ilo console by SSH"
	iloOverLAN    = "ilo console over LAN"
	irmcOverLAN   = "irmc console over LAN"
)

// longestPassword is how long one may be in IPMI 2.0, longestCommunity one of SNMP, and shortestKey is of SNMP's version 3.
const longestPassword, longestCommunity, shortestKey = 20, 127, 8

const unsendable = ", which this version of IPMI cannot send"

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
	"ipmi_password":             {{readers: ipmi, reads: oldIPMI, wrong: longest(longestOfIPMI, "%s has more than 16 bytes"+unsendable)}, {readers: ipmi, reads: not(oldIPMI), wrong: longest(longestPassword, "%s has more than 20 bytes"+unsendable)}},
	"ipmi_priv_level":           {{readers: ipmi, wrong: privilege}},
	"ipmi_protocol_version":     {{readers: ipmi, wrong: ipmiVersion}},
	"ipmi_cipher_suite":         {{readers: ipmi, wrong: cipherSuite}},
	"ipmi_hex_kg_key":           {{readers: ipmi, reads: not(oldIPMI), wrong: ipmiKey}},
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

	"redfish_ssh_host_key":   {{readers: []string{redfishSerial}, wrong: hostKey}},
	"redfish_ssh_shared_cli": {{readers: []string{redfishSerial}, wrong: word}},

	"drac_address":   {{readers: drac, wrong: dracAddress}},
	"drac_port":      {{readers: drac, wrong: validPort}},
	"drac_protocol":  {{readers: drac, wrong: says("'drac_protocol' must be either 'http' or 'https'.", "http", "https")}},
	"drac_identity":  {{readers: drac, wrong: give("trust or ignore", "trust", "ignore")}},
	"drac_verify_ca": {{readers: drac, wrong: authorities}},

	"ilo_address": {
		{readers: ilo, wrong: vendorHost("ilo_username and ilo_password")},
		{readers: []string{iloOverLAN}, wrong: overLAN("ilo_username and ilo_password", "ilo_ipmi_port")}},
	"ilo_username":       {{readers: []string{iloOverLAN}, wrong: longest(longestOfIPMI, "%s has more than 16 bytes, which IPMI cannot send")}},
	"ilo_password":       {{readers: []string{iloOverLAN}, wrong: longest(longestPassword, "%s has more than 20 bytes"+unsendable)}},
	"ilo_ipmi_port":      {{readers: ilo, wrong: validPort}},
	"ilo_ssh_host_key":   {{readers: []string{iloSerial}, wrong: hostKey}},
	"ilo_ssh_shared_cli": {{readers: []string{iloSerial}, wrong: word}},
	"client_port":        {{readers: ilo, wrong: validPort}},
	"console_port":       {{readers: ilo, wrong: validPort}},
	"client_timeout":     {{readers: ilo, wrong: iloTimeout}},
	"ilo_identity":       {{readers: ilo, wrong: give("trust or ignore", "trust", "ignore")}},
	"ilo_verify_ca":      {{readers: ilo, reads: withoutFile, wrong: authorities}},
	"ca_file":            {{readers: ilo, wrong: authoritiesFile}},

	"irmc_address": {
		{readers: irmc, wrong: vendorHost("irmc_username and irmc_password")},
		{readers: []string{irmcOverLAN}, wrong: overLAN("irmc_username and irmc_password", "irmc_ipmi_port")}},
	"irmc_username":           {{readers: []string{irmcOverLAN}, wrong: longest(longestOfIPMI, "%s has more than 16 bytes, which IPMI cannot send")}},
	"irmc_password":           {{readers: []string{irmcOverLAN}, wrong: longest(longestPassword, "%s has more than 20 bytes"+unsendable)}},
	"irmc_ipmi_port":          {{readers: irmc, wrong: port}},
	"irmc_snmp_community":     {{readers: irmc, reads: not(irmcVersion3), typed: true, wrong: longest(longestCommunity, "%s has more than 127 characters.")}},
	"irmc_snmp_user":          {{readers: irmc, reads: irmcVersion3, typed: true}},
	"irmc_snmp_security":      {{readers: irmc, reads: irmcSecurity, typed: true}},
	"irmc_snmp_auth_password": {{readers: irmc, reads: irmcVersion3, typed: true, wrong: shortest("%s is too short. (8+ chars required)")}},
	"irmc_snmp_priv_password": {{readers: irmc, reads: irmcVersion3, typed: true, wrong: shortest("%s is too short. (8+ chars required)")}},
	"irmc_snmp_auth_proto":    {{readers: irmc, reads: irmcVersion3, wrong: irmcProtocol("sha", "sha256", "sha384", "sha512")}},
	"irmc_snmp_priv_proto":    {{readers: irmc, reads: irmcVersion3, wrong: irmcProtocol("aes")}},
	"irmc_port":               {{readers: irmc, wrong: irmcPort}},
	"irmc_auth_method":        {{readers: irmc, wrong: irmcWord("basic", "digest")}},
	"irmc_sensor_method":      {{readers: irmc, wrong: irmcWord("ipmitool", "scci")}},
	"irmc_client_timeout":     {{readers: irmc, wrong: irmcTimeout}},
	"irmc_snmp_version":       {{readers: irmc, wrong: irmcSNMPVersion}},
	"irmc_snmp_port":          {{readers: irmc, wrong: validPort}},
	"irmc_identity":           {{readers: irmc, wrong: give("trust or ignore", "trust", "ignore")}},
	"irmc_verify_ca":          {{readers: irmc, wrong: authorities}},

	"snmp_driver":             {{readers: snmp, wrong: pduType}},
	"snmp_address":            {{readers: snmp, wrong: pduAddress}},
	"snmp_port":               {{readers: snmp, wrong: pduPort}},
	"snmp_outlet":             {{readers: snmp, wrong: outlet}},
	"snmp_version":            {{readers: snmp, wrong: snmpVersion}},
	"snmp_community":          {{readers: snmp, reads: not(version3), wrong: community}},
	"snmp_community_read":     {{readers: snmp, reads: not(version3), wrong: community}},
	"snmp_community_write":    {{readers: snmp, reads: not(version3), wrong: community}},
	"snmp_auth_key":           {{readers: snmp, reads: version3, wrong: shortKey("authentication", "in node")}},
	"snmp_priv_key":           {{readers: snmp, reads: version3, wrong: shortKey("privacy", "node")}},
	"snmp_auth_user":          {{readers: ilo, typed: true}},
	"snmp_auth_prot_password": {{readers: ilo, reads: withUser, typed: true, wrong: shortest("%s is too short. An iLO takes 8 characters and more.")}},
	"snmp_auth_priv_password": {{readers: ilo, reads: withUser, typed: true, wrong: shortest("%s is too short. An iLO takes 8 characters and more.")}},
	"snmp_auth_protocol": {
		{readers: snmp, reads: version3, wrong: snmpProtocol("authentication", AuthProtocols)},
		{readers: ilo, reads: withUser, wrong: iloProtocol("MD5", "SHA")}},
	"snmp_priv_protocol":      {{readers: snmp, reads: version3, wrong: snmpProtocol("privacy", PrivProtocols)}},
	"snmp_auth_priv_protocol": {{readers: ilo, reads: withUser, wrong: iloProtocol("AES", "DES")}},
	"snmp_context_engine_id":  {{readers: snmp, reads: version3, wrong: engineID}},

	"iboot_address":  {{readers: iboot, wrong: host("iboot_port", strict)}},
	"iboot_username": {{readers: iboot, wrong: longest(longestOfIBoot, "%s and iboot_password have 20 characters at most")}},
	"iboot_password": {{readers: iboot, wrong: longest(longestOfIBoot, "iboot_username and %s have 20 characters at most")}},
	"iboot_port":     {{readers: iboot, wrong: port}},
	"iboot_relay_id": {{readers: iboot, wrong: relay}},

	"wol_host":     {{readers: wol, wrong: wolHost}},
	"wol_port":     {{readers: wol, wrong: port}},
	"wol_password": {{readers: wol, wrong: secureOn}},

	"ucs_address":          {{readers: ucsm, wrong: host("ucs_port", paired)}},
	"ucs_port":             {{readers: ucsm, wrong: port}},
	"ucs_verify_ca":        {{readers: ucsm, wrong: authorities}},
	"ucs_service_profile":  {{readers: ucsm, wrong: ucsProfile}},
	"cimc_address":         {{readers: cimc, wrong: host("cimc_port", paired)}},
	"cimc_port":            {{readers: cimc, wrong: port}},
	"cimc_verify_ca":       {{readers: cimc, wrong: authorities}},
	"asrockrack_address":   {{readers: asrock, wrong: host("asrockrack_port", paired)}},
	"asrockrack_port":      {{readers: asrock, wrong: port}},
	"asrockrack_verify_ca": {{readers: asrock, wrong: authorities}},
	"amt_address":          {{readers: amt, wrong: host("amt_port", paired)}},
	"amt_port":             {{readers: amt, wrong: port}},
	"amt_protocol":         {{readers: amt, wrong: amtProtocol}},
	"amt_verify_ca":        {{readers: amt, wrong: authorities}},
	"virtualbox_host":      {{readers: vbox, wrong: host("virtualbox_port", paired)}},
	"virtualbox_port":      {{readers: vbox, wrong: port}},
	"virtualbox_protocol":  {{readers: vbox, wrong: give("http or https", "http", "https")}},
	"virtualbox_verify_ca": {{readers: vbox, wrong: authorities}},
	"ssh_address":          {{readers: ssh, wrong: host("ssh_port", paired)}},
	"ssh_port":             {{readers: ssh, wrong: port}},
	"ssh_virt_type":        {{readers: ssh, wrong: virtType}},
	"ssh_host_key":         {{readers: ssh, wrong: hostKey}},
	"ssh_key_contents":     {{readers: ssh, wrong: keyContents}},
	"ssh_key_filename":     {{readers: ssh, wrong: keyFile}},
	"vbox_use_headless":    {{readers: ssh, wrong: word}},

	"libvirt_uri":         {{readers: libvirt, wrong: libvirtURI}},
	"libvirt_host_key":    {{readers: libvirt, reads: bySSH, wrong: hostKey}},
	"libvirt_private_key": {{readers: libvirt, reads: bySSH, wrong: privateKey}},
	"libvirt_verify_ca":   {{readers: libvirt, wrong: authorities}},

	"seamicro_server_id":    {{readers: seamicro, wrong: seamicroServer}},
	"seamicro_api_endpoint": {{readers: seamicro, wrong: seamicroEndpoint}},
	"seamicro_api_version":  {{readers: seamicro, wrong: seamicroVersion}},
	"seamicro_verify_ca":    {{readers: seamicro, wrong: authorities}},
	"msftocs_base_url":      {{readers: msftocs, wrong: msftocsURL}},
	"msftocs_blade_id":      {{readers: msftocs, wrong: blade}},
	"msftocs_verify_ca":     {{readers: msftocs, wrong: authorities}},
	"rpc_url":               {{readers: rpc, wrong: rpcURL}},
	"rpc_algorithm":         {{readers: rpc, wrong: give("sha256 or sha512", "sha256", "sha512")}},
	"rpc_verify_ca":         {{readers: rpc, wrong: authorities}},

	"force_persistent_boot_device": {{readers: boots, wrong: bootField(give("Default, Always or Never", "Default", "Always", "Never"))}},
	"kernel_append_params":         {{readers: slices.Concat(loaders, programs), wrong: kernelParams}, {readers: images, reads: withParams, wrong: kernelParams}, {readers: programs, wrong: agentParams}},
	"deploy_kernel":                {{readers: loaders, wrong: file}, {readers: images, reads: withoutImage, wrong: fileForImage}, {readers: programs, wrong: notLoaded}},
	"deploy_ramdisk":               {{readers: loaders, wrong: file}, {readers: images, reads: withoutImage, wrong: fileForImage}, {readers: programs, wrong: notLoaded}},
	"rescue_kernel":                {{readers: programs, wrong: notLoaded}},
	"rescue_ramdisk":               {{readers: programs, wrong: notLoaded}},
	"deploy_iso":                   {{readers: bySome, wrong: webImage}, {readers: byHTTPS, wrong: httpsImage}},
	"external_http_url":            {{readers: bySome, reads: withoutImage, wrong: webImage}, {readers: byHTTPS, reads: withoutImage, wrong: httpsImage}},
	"ironyard_media_https":         {{readers: drives, wrong: overHTTPS}, {readers: byURL, wrong: notOverHTTPS}},
	"config_via_removable":         {{readers: drives, wrong: secondMedium}, {readers: byURL, wrong: noSecondMedium}},
	"config_via_floppy":            {{readers: drives, wrong: secondMedium}, {readers: byURL, wrong: noSecondMedium}},
	"bootloader":                   {{readers: images, wrong: noBootloader}},

	"image_http_proxy":           {{readers: fetches, wrong: proxy}},
	"image_https_proxy":          {{readers: fetches, wrong: proxy}},
	"image_no_proxy":             {{readers: fetches, wrong: noProxy}},
	"image_server_auth_strategy": {{readers: fetches, wrong: bootField(give("noauth or http_basic", "noauth", "http_basic"))}},
	"image_server_hosts":         {{readers: fetches, wrong: imageHosts}},
	"image_server_user":          {{readers: fetches, reads: basicAuth, wrong: basicUser}},
	"image_pull_secret":          {{readers: fetches, wrong: sendable}},
	"ironyard_min_disk_bytes":    {{readers: writes, wrong: minDisk}},

	"ansible_username":           {{readers: plays, wrong: ansibleUser}},
	"ansible_python_interpreter": {{readers: plays, wrong: interpreter}},
	"ansible_shutdown_playbook":  {{readers: plays, wrong: notRead("the ramdisk's agent writes out the caches and switches the machine off")}},
	"ansible_clean_playbook":     {{readers: plays, wrong: notRead("the ramdisk's agent cleans")}},
	"ansible_clean_steps_config": {{readers: plays, wrong: notRead("the ramdisk's agent cleans")}},
}

func bridged(kinds ...string) func(Info) bool {
	return func(i Info) bool { return slices.Contains(kinds, i.text("ipmi_bridging")) }
}

func not(reads func(Info) bool) func(Info) bool { return func(i Info) bool { return !reads(i) } }

func version3(i Info) bool { return i.text("snmp_version") == "3" }

func oldIPMI(i Info) bool { return i.text("ipmi_protocol_version") == "1.5" }

func irmcVersion3(i Info) bool { return strings.EqualFold(i.text("irmc_snmp_version"), "v3") }

// irmcSecurity: the former name of irmc_snmp_user counts where there is no other.
func irmcSecurity(i Info) bool { return irmcVersion3(i) && i.text("irmc_snmp_user") == "" }

// withoutImage: a ready image of the ramdisk stands in for what rackd would make one of.
func withoutImage(i Info) bool { return i.text("deploy_iso") == "" }

// withParams: a ready image is told parameters by a second medium alone.
func withParams(i Info) bool {
	return withoutImage(i) || strings.EqualFold(i.text("config_via_removable"), "true") || strings.EqualFold(i.text("config_via_floppy"), "true")
}

func basicAuth(i Info) bool { return i.text("image_server_auth_strategy") == "http_basic" }

// withoutFile: an iLO's ca_file counts before ilo_verify_ca.
func withoutFile(i Info) bool { return i.text("ca_file") == "" }

// withUser: an iLO is asked by SNMP where the node has a user for it.
func withUser(i Info) bool { return i.text("snmp_auth_user") != "" }

// bySSH: libvirt is reached by SSH, which alone has keys of hosts, and users' keys without a certificate.
func bySSH(i Info) bool {
	scheme, _, _ := strings.Cut(i.text("libvirt_uri"), ":")
	return strings.HasSuffix(strings.ToLower(scheme), "+ssh")
}
