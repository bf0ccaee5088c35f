package idrac

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// Firmware quotes what it was sent, and a hostile one says what it likes. No name of a job shows the password or a URL's credentials. None
// has a line of its own, or has no end. That is so in the history of an idle node, a step's error and the answer of a vendor method.
func TestWhatJobsAreNamedShowsNoSecret(t *testing.T) {
	const inURL = "hunter2"
	d, m := newDouble(t), management(t, redfish.Options{}, nil)
	n := &node.Document{UUID: "u", Driver: "idrac", DriverInfo: d.info(redfishtest.Password)}
	d.addJob("JID_7", "Import by "+redfishtest.Password+" of http://files:"+inURL+"@10.0.0.1/x\nnode u: ended well "+strings.Repeat("x", 16<<10), "Running")
	d.Do(func() {
		j := d.At[queueAt]["Members"].([]any)[0].(map[string]any)
		for _, field := range []string{"Message", "StartTime", "EndTime"} {
			j[field] = "GET http://files:" + inURL + "@10.0.0.1/x with " + redfishtest.Password + strings.Repeat("y", 16<<10)
		}
		j["PercentComplete"] = map[string]any{"of": redfishtest.Password}
	})
	rig := drivertest.NewRig().Task(networkboot.IPXE()).Hardware
	reg, err := driver.NewRegistry(driver.Type{Name: "idrac", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: rig.Power()}},
		"management": {{Name: "m", Impl: m}}, "boot": {{Name: "b", Impl: rig.Boot()}}, "deploy": {{Name: "d", Impl: rig.Deploy()}}}})
	if err != nil {
		t.Fatal(err)
	}
	hw, err := reg.Resolve(n)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	if told["the history"], err = Jobs().Do(t.Context(), n, hw); err != nil {
		t.Fatal(err)
	}
	if told["the vendor method"], err = called(t, Vendor{redfish.Vendor{Driver: m.Driver}}, n, "list_unfinished_jobs", "GET", nil); err != nil {
		t.Fatal(err)
	}
	d.Do(func() { d.Deaf = true })
	if _, err := stepOf(t, d, m, "clear_job_queue", nil); err == nil {
		t.Error("the queue counts as cleared")
	} else {
		told["the step's error"] = err.Error()
	}
	for where, text := range told {
		if !strings.Contains(text, "JID_7") {
			t.Errorf("%s does not name the job: %.300q", where, text)
		}
		if strings.Contains(text, redfishtest.Password) || strings.Contains(text, inURL) || strings.Contains(text, "\n") || len(text) > 8<<10 {
			t.Errorf("%s has %d bytes: %.300q", where, len(text), text)
		}
	}
}
