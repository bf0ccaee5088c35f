package redfish

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
)

// need is something that a firmware wants in a way of its own.
type need string

// What firmwares need.
const (
	// wholeBoot: one PATCH has target, duration and mode of the boot override, also those that stay as they are.
	wholeBoot need = "wholeBoot"
	// anyTag: a PATCH has an If-Match, "*" where the BMC shows no entity tag.
	anyTag need = "anyTag"
	// usbCD: a virtual CD is booted as UsbCd where the BMC lists that target.
	usbCD need = "usbCD"
	// noResetTag: a reset has no If-Match, because the tag may be another at each read.
	noResetTag need = "noResetTag"
)

// quirks is what firmwares need: the need, the firmware that is known for it, and parts of the vendor's name in lower
// case (none: all BMCs are treated so). A model in but does not have it.
var quirks = []struct {
	need     need
	firmware string
	vendors  []string
	but      []string
}{
	{wholeBoot, "Supermicro X11 to X14: an override without its mode falls back to Legacy, one without its duration is not taken", []string{"supermicro"}, nil},
	{wholeBoot, "AMI MegaRAC SP-X: an override is refused, or taken in part, unless all three are there", []string{"american megatrends", "ami"}, nil},
	{wholeBoot, "ASRockRack (AMI's firmware under another name)", []string{"asrockrack"}, nil},
	{wholeBoot, "firmware that calls its vendor redfish_compatible", []string{"redfish_compatible"}, nil},
	{anyTag, "AMI MegaRAC SP-X: a PATCH without If-Match is answered 428", []string{"american megatrends", "ami", "asrockrack"}, nil},
	{anyTag, "Fujitsu iRMC S5 and S6: a PATCH without If-Match is answered 428", []string{"fujitsu", "fsas"}, nil},
	{anyTag, "Dell iDRAC 9: a PATCH of a settings object that changed in between is to be refused", []string{"dell"}, nil},
	{usbCD, "Supermicro X11 and X12: the virtual CD is a USB drive; Cd is a drive that does not exist", []string{"supermicro"}, []string{"ars-111gl-nhr"}},
	{noResetTag, "firmware that counts each read of a system in its tag: a reset would be refused", nil, nil},
}

// What BMCs call a boot device: the standard's name first. Others are of firmware from before it was the standard's.
var bootTargets = map[string][]schemas.BootSource{
	"pxe":      {schemas.PxeBootSource},
	"disk":     {schemas.HddBootSource},
	"cdrom":    {schemas.CdBootSource, "CD/DVD", usbCDTarget}, // Supermicro X10 3.x: CD/DVD
	"usb":      {schemas.UsbBootSource},
	"bios":     {schemas.BiosSetupBootSource},
	"floppy":   {schemas.FloppyBootSource, "FloppyRemovableMedia"}, // Supermicro X10 3.x
	"safe":     {schemas.DiagsBootSource},
	"uefihttp": {schemas.UefiHTTPBootSource},
}

const usbCDTarget schemas.BootSource = "UsbCd"

// insertParameters are what some BMCs want of an InsertMedia beside the image, and name in their refusal. All get the image
// alone at first: Supermicro X11 and X12 refuse Inserted and WriteProtected, which default to true.
var insertParameters = []struct{ name, value string }{
	{"TransferProtocolType", "HTTP"}, // Lenovo XCC 2, Cisco, Nvidia; HTTPS for such a URL
	{"TransferMethod", "Stream"},     // Supermicro H13
	{"UserName", "none"},             // Nvidia DGX H100
	{"Password", "none"},             // Nvidia DGX H100
}

// webConsoles are where firmwares have their serial console as a WebSocket that their resources do not tell of, by the manager's model
// in lower case.
var webConsoles = []struct{ firmware, model, path string }{
	{"OpenBMC's bmcweb", "openbmc", "/console0"},
}

// rfbConsole is where a firmware has its graphical console as RFB in a WebSocket, by the manager's model in lower case.
type rfbConsole struct{ firmware, model, path string }

var rfbConsoles = []rfbConsole{{"OpenBMC's bmcweb, built with its option kvm", "openbmc", "/kvm/0"}}

// ownPages are vendors whose graphical console is a page with a protocol of its own, by parts of the vendor's name in lower case. some:
// other machines of theirs have OpenBMC, so that the BMC alone can tell.
var ownPages = []struct {
	console string
	vendors []string
	some    bool
}{
	{"the virtual console of an iDRAC", []string{"dell"}, false},
	{"the video redirection of an iRMC", []string{"fujitsu", "fsas"}, false},
	{"the vKVM of a CIMC", []string{"cisco"}, false},
	{"the remote console of an iLO", []string{"hpe", "hewlett packard enterprise"}, true},
	{"the remote console of an XCC", []string{"lenovo"}, true},
	{"the iKVM of a BMC of Supermicro's", []string{"supermicro"}, true},
	{"the H5Viewer of a MegaRAC", []string{"american megatrends", "ami"}, true},
}

// entryCommands are by what the command line of a manager enters the console, where its resources do not tell, by parts of the
// vendor's name in lower case.
var entryCommands = []struct {
	firmware, command string
	vendors           []string
}{
	{"HPE iLO 4 to 6: the virtual serial port; an iLO 4 of a Gen8 or Gen9 calls its maker HP", "vsp",
		[]string{"hpe", "hp", "hewlett packard enterprise", "hewlett-packard"}},
	{"Dell iDRAC 7 to 9, whose system shows no SerialConsole", "console com2", []string{"dell"}},
}

// busyMessages are the ends of the ids of messages with which a BMC refuses what it will take a moment later.
var busyMessages = []string{
	"UnableToModifyDuringSystemPOST", // HPE iLO 5 and 6, while the machine starts
	"ServiceTemporarilyUnavailable",  // the standard's
	"ServiceInUnknownState",          // the standard's: it starts
	"ResourceInStandby",              // the standard's
	"RAC0679",                        // Dell iDRAC 9, while another job runs
}

// maker is the vendor of a BMC and the model of its machine, in lower case.
type maker struct{ vendor, model string }

// makerOf is what the service root calls the vendor, else the system's manufacturer.
func makerOf(c *gofish.APIClient, s *System) maker {
	vendor := s.Manufacturer
	if root := c.GetService(); root != nil && root.Vendor != "" {
		vendor = root.Vendor
	}
	return maker{strings.ToLower(vendor), strings.ToLower(s.Model)}
}

// needs reports whether the firmware is known to need n.
func (m maker) needs(n need) bool {
	for _, q := range quirks {
		if q.need != n || slices.Contains(q.but, m.model) {
			continue
		}
		if q.vendors == nil || slices.ContainsFunc(q.vendors, m.is) {
			return true
		}
	}
	return false
}

// is reports whether the vendor's name has these words in it.
func (m maker) is(name string) bool {
	return strings.Contains(" "+m.vendor+" ", " "+name+" ") || len(name) > 4 && strings.Contains(m.vendor, name)
}

// busy reports whether the BMC refuses something that it will take a moment later.
func busy(e *schemas.Error) bool {
	ends := func(id string) bool {
		return slices.ContainsFunc(busyMessages, func(end string) bool { return strings.HasSuffix(id, "."+end) })
	}
	return ends(e.Code) || slices.ContainsFunc(e.ExtendedInfos, func(i schemas.ErrExtendedInfo) bool { return ends(i.MessageID) })
}

// allowed is what an annotation of a system's Boot lists for a property; nil where it lists nothing. gofish does not
// read them.
func allowed[T ~string](s *System, property string) (list []T) {
	var raw struct{ Boot map[string]json.RawMessage }
	if json.Unmarshal(s.raw, &raw) == nil {
		if json.Unmarshal(raw.Boot[property+"@Redfish.AllowableValues"], &list) != nil {
			return nil
		}
	}
	return list
}
