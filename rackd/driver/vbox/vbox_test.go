package vbox

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is one of the double's.
type machine struct {
	on       bool
	firmware string
	boot     []string
	locked   string // by which session
}

// double is a web service with two machines, made from the methods and arguments that the WSDL has. It is no judge.
type double struct {
	*drivertest.Web
	password        string
	boxes           []string
	refused, number int
	machines        map[string]*machine
	copies          map[string]machine // by session
	logoffs         int
}

func newDouble(t *testing.T) *double {
	d := &double{password: "s3cret", copies: map[string]machine{}, machines: map[string]*machine{}}
	for _, name := range []string{"web1", "web2"} {
		d.machines[name] = &machine{firmware: "BIOS", boot: []string{"HardDisk", "DVD", "Null", "Null"}}
	}
	d.Web = drivertest.NewWeb(t, false, d.answer)
	d.Spoiler.Restart = func() {
		d.boxes = nil
		clear(d.copies)
		for _, m := range d.machines {
			m.locked = ""
		}
	}
	return d
}

func (d *double) answer(w http.ResponseWriter, r *http.Request) {
	var e struct {
		Body struct {
			Call struct {
				XMLName xml.Name
				Args    []struct {
					XMLName xml.Name
					Text    string `xml:",chardata"`
				} `xml:",any"`
			} `xml:",any"`
		}
	}
	raw, _ := io.ReadAll(r.Body)
	if err := xml.Unmarshal(raw, &e); err != nil || e.Body.Call.XMLName.Space != "http://www.virtualbox.org/" {
		http.Error(w, "no SOAP", http.StatusBadRequest)
		return
	}
	method, args := e.Body.Call.XMLName.Local, map[string]string{}
	for _, a := range e.Body.Call.Args {
		args[a.XMLName.Local] = a.Text
	}
	values, fault := d.call(method, args)
	const begin, end = `<?xml version="1.0" encoding="UTF-8"?><SOAP-ENV:Envelope xmlns:SOAP-ENV="http://schemas.xmlsoap.org/soap/envelope/" xmlns:vbox="http://www.virtualbox.org/"><SOAP-ENV:Body>`, `</SOAP-ENV:Body></SOAP-ENV:Envelope>`
	if fault != "" {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprintf(w, begin+`<SOAP-ENV:Fault><faultcode>SOAP-ENV:Client</faultcode><faultstring>%s</faultstring></SOAP-ENV:Fault>`+end, fault)
		return
	}
	body := ""
	for _, v := range values {
		body += "<returnval>" + v + "</returnval>"
	}
	_, _ = fmt.Fprintf(w, begin+"<vbox:%sResponse>%s</vbox:%sResponse>"+end, method, body, method)
}

// call does a method. References are BOX/kind/name.
func (d *double) call(method string, args map[string]string) (values []string, fault string) {
	if method == "IWebsessionManager_logon" {
		if args["username"] != "admin" || args["password"] != d.password {
			d.refused++
			return nil, "VirtualBox error: access denied for " + args["password"]
		}
		d.number++
		d.boxes = append(d.boxes, fmt.Sprintf("box%d", d.number))
		return d.boxes[len(d.boxes)-1:], ""
	}
	this := args["_this"] + args["refIVirtualBox"]
	parts := strings.SplitN(this, "/", 3)
	if !slices.Contains(d.boxes, parts[0]) {
		return nil, "VirtualBox error: Invalid managed object reference \"" + this + "\""
	}
	var m *machine
	if len(parts) == 3 {
		m = d.machines[parts[2]]
	}
	switch method {
	case "IWebsessionManager_logoff":
		d.boxes = slices.DeleteFunc(d.boxes, func(b string) bool { return b == this })
		d.logoffs++
	case "IVirtualBox_findMachine":
		if d.machines[args["nameOrId"]] == nil {
			return nil, "VirtualBox error: Could not find a registered machine named '" + args["nameOrId"] + "'"
		}
		return []string{this + "/machine/" + args["nameOrId"]}, ""
	case "IWebsessionManager_getSessionObject":
		d.number++
		return []string{fmt.Sprintf("%s/session%d/", this, d.number)}, ""
	case "IMachine_getState":
		d.Read()
		return []string{map[bool]string{true: "Running", false: "PoweredOff"}[m.on]}, ""
	case "IMachine_getBootOrder":
		d.Read()
		place, _ := strconv.Atoi(args["position"])
		return []string{m.boot[place-1]}, ""
	case "IMachine_getFirmwareType":
		return []string{m.firmware}, ""
	case "IMachine_lockMachine":
		if m.locked != "" || args["lockType"] == "Write" && m.on {
			return nil, "VirtualBox error: The machine '" + parts[2] + "' is already locked by a session"
		}
		m.locked = args["session"]
	case "ISession_unlockMachine":
		for _, m := range d.machines {
			if m.locked == this {
				m.locked = ""
			}
		}
	case "ISession_getConsole", "ISession_getMachine":
		for name, m := range d.machines {
			if m.locked == this {
				d.copies[name] = machine{m.on, m.firmware, slices.Clone(m.boot), this}
				return []string{parts[0] + "/copy/" + name}, ""
			}
		}
		return nil, "VirtualBox error: The session is not locked"
	case "IMachine_setBootOrder":
		place, _ := strconv.Atoi(args["position"])
		d.copies[parts[2]].boot[place-1] = args["device"]
	case "IMachine_setFirmwareType":
		c := d.copies[parts[2]]
		c.firmware = args["firmwareType"]
		d.copies[parts[2]] = c
	case "IMachine_saveSettings":
		m.boot, m.firmware = d.copies[parts[2]].boot, d.copies[parts[2]].firmware
		d.Wrote()
	case "IMachine_launchVMProcess":
		if args["type"] != "headless" || m.locked != "" {
			return nil, "VirtualBox error: it cannot be started"
		}
		m.on = true
		d.Wrote()
		return []string{parts[0] + "/progress/x"}, ""
	case "IConsole_powerDown", "IConsole_powerButton":
		m.on, m.locked = false, ""
		d.Wrote()
		if method == "IConsole_powerDown" {
			return []string{parts[0] + "/progress/x"}, ""
		}
	case "IProgress_waitForCompletion":
	case "IProgress_getResultCode":
		return []string{"0"}, ""
	default:
		return nil, "Method '" + method + "' not implemented"
	}
	return nil, ""
}

func (d *double) node(more map[string]any) *node.Document {
	host, port := d.HostPort()
	info := map[string]any{fieldHost: host, fieldPort: port, fieldUser: "admin", fieldPassword: "s3cret", fieldMachine: "web1"}
	for field, v := range more {
		info[field] = v
	}
	return &node.Document{UUID: "b3d1", Name: "one", DriverInfo: info}
}

func newDriver(t *testing.T) *Driver {
	d := New(bmc.WebOptions{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Pace: 1000, Log: drivertest.Logger(t)})
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(t.Context())) })
	return d
}

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
		h, d := newDouble(t), newDriver(t)
		m := h.Play(&drivertest.Machine{Power: d, Management: d, Node: h.node(nil), Lasting: true, Secret: "s3cret"})
		m.Second = func() *node.Document {
			n := h.node(map[string]any{fieldMachine: "web2"})
			n.UUID, n.Name = "b3d2", "web2"
			return n
		}
		m.Deny = func() { h.Set(func() { h.password, h.boxes = "an0ther", nil }) }
		m.Logins = func() (n int) { h.Set(func() { n = h.refused }); return n }
		m.Sessions = func() (n int) { h.Set(func() { n = len(h.boxes) }); return n }
		m.Forget = func() { h.Set(func() { h.machines["web1"].boot = []string{"HardDisk", "DVD", "Null", "Null"} }) }
		m.Corrected = func() *node.Document { return h.node(map[string]any{fieldPassword: "an0ther"}) }
		return m
	})
}

// A boot device that is set while the machine is on is written before its next start, by whichever rackd; no lock stays behind.
func TestBootDevicesOfRunningMachines(t *testing.T) {
	h, d := newDouble(t), newDriver(t)
	n, f := h.node(nil), &drivertest.Fence{}
	for _, err := range []error{d.SetPower(t.Context(), f, n, driver.PowerOn), d.SetBootDevice(t.Context(), f, n, driver.BootPXE, false)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if is, err := d.BootDevice(t.Context(), n); err != nil || is.Device != "pxe" || h.machines["web1"].boot[0] != "HardDisk" {
		t.Errorf("%+v, %v, %v", is, err, h.machines["web1"].boot)
	}
	if err := d.SetBootMode(t.Context(), f, n, "uefi"); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("other firmware for a machine that is on: %v", err)
	}
	n.Kept = d.Kept(n)
	other := newDriver(t)
	if err := other.SetPower(t.Context(), f, n, driver.Rebooting); err != nil {
		t.Fatal(err)
	}
	m := h.machines["web1"]
	if want := []string{"Network", "HardDisk", "DVD", "Null"}; !m.on || !slices.Equal(m.boot, want) || m.locked != "" || h.machines["web2"].on {
		t.Errorf("%+v, want the boot order %v", m, want)
	}
	for _, err := range []error{other.SetPower(t.Context(), f, n, driver.SoftPowerOff), other.SetBootMode(t.Context(), f, n, "uefi"), other.Close(t.Context()), d.Close(t.Context())} {
		if err != nil {
			t.Error(err)
		}
	}
	h.Set(func() {
		if m.firmware != "EFI" || m.locked != "" || h.logoffs != 2 || len(h.boxes) != 0 {
			t.Errorf("%+v, %d log-offs, %d logins left", m, h.logoffs, len(h.boxes))
		}
	})
}

func TestValidate(t *testing.T) {
	h, d := newDouble(t), newDriver(t)
	for _, x := range []struct {
		more map[string]any
		says string // empty: it is fine
	}{
		{nil, ""},
		{map[string]any{fieldUser: nil, fieldPassword: nil, fieldPort: nil}, ""},
		{map[string]any{fieldMachine: "", fieldHost: nil}, "The following parameters are missing in driver_info: virtualbox_vmname, virtualbox_host"},
		{map[string]any{fieldPort: "many"}, `virtualbox_port "many" is not a valid integer.`},
		{map[string]any{fieldProtocol: "gopher"}, "give http or https"},
		{map[string]any{fieldHost: "192.0.2.1"}, "--bmc-networks"},
	} {
		err := d.Validate(h.node(x.more))
		switch {
		case x.says == "" && err != nil:
			t.Errorf("%v: %v", x.more, err)
		case x.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), x.says) || strings.Contains(err.Error(), "s3cret") || strings.Count(err.Error(), "b3d1") != 1):
			t.Errorf("%v: %v; want an ErrInvalid that says %q", x.more, err, x.says)
		}
	}
	if _, err := d.PowerState(t.Context(), h.node(map[string]any{fieldMachine: "none"})); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "check virtualbox_vmname") {
		t.Errorf("a machine that is not there: %v", err)
	}
}
