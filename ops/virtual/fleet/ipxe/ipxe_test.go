package ipxe

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/agent/cmdline"
	"github.com/ironyard/ironyard/ops/virtual/fleet/fault"
	"github.com/ironyard/ironyard/ops/virtual/fleet/pace"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

const mac = "52:54:00:00:00:01"

var rack = ipxescript.Ramdisk{Server: ipxescript.Server{HTTP: "http://10.0.0.1:8080"}, Others: []ipxescript.Server{{HTTP: "http://10.0.0.2:8080"}}, Kernel: "kernel", Initramfs: "ramdisk",
	Params: []string{"ipa-api-url=https://10.0.0.1:6386,https://10.0.0.2:6386", "ironyard-api-fingerprint=" + strings.Repeat("ab", 32)}}

// The scripts are those that rackd writes, not copies of them.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		name    string
		machine netboot.Machine
		want    Script
	}{
		{"ramdisk", netboot.Machine{UUID: "u-1", Name: "m", Order: bootorder.Ramdisk(bootorder.Load{})}, Script{Order: Ramdisk, Pause: ipxescript.RetrySeconds * time.Second,
			Kernel: "http://10.0.0.1:8080/files/kernel?mac=52%3A54%3A00%3A00%3A00%3A01", Initrd: "http://10.0.0.1:8080/files/ramdisk?mac=52%3A54%3A00%3A00%3A00%3A01"}},
		{"UEFI disk", netboot.Machine{UUID: "u-1", Order: bootorder.LocalDisk(), BootMode: "uefi"}, Script{Order: LocalDisk}},
		{"BIOS disk", netboot.Machine{UUID: "u-1", Order: bootorder.LocalDisk(), BootMode: "bios"}, Script{Order: LocalDisk}},
		{"later", netboot.Machine{UUID: "u-1", Order: bootorder.Later("")}, Script{Order: Later, Pause: ipxescript.RetrySeconds * time.Second}},
		{"volume", netboot.Machine{UUID: "u-1", Order: bootorder.FromVolumes(bootorder.Volumes{Initiator: "iqn.m", List: []bootorder.Volume{
			{Name: "v-1", User: "m", Secret: "s", URIs: []string{"iscsi:10.0.0.9::3260:1:iqn.v"}}, {Name: "v-2", URIs: []string{"iscsi:10.0.0.9::3260:2:iqn.v"}}}})},
			Script{Order: Volume, Volumes: []string{"iscsi:10.0.0.9::3260:1:iqn.v", "iscsi:10.0.0.9::3260:2:iqn.v"}, Pause: ipxescript.VolumeSeconds * time.Second}},
		{"image", netboot.Machine{UUID: "u-1", Order: bootorder.Image(bootorder.File{URL: "http://10.0.0.1:8080/i.iso"})},
			Script{Order: Image, Image: "http://10.0.0.1:8080/i.iso", Pause: ipxescript.RetrySeconds * time.Second}},
		{"nothing", netboot.Machine{UUID: "u-1", Order: bootorder.Refuse("Node is not deployed.")}, Script{Order: Restart, Pause: ipxescript.RefusedSeconds * time.Second}},
	} {
		got, err := Parse(ipxescript.Write(c.machine, mac, rack))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.want.Order == Later && (len(got.Next) != 2 || !strings.HasPrefix(got.Next[0], "http://10.0.0.2:8080/boot/script?mac=")) {
			t.Errorf("%s: next %q, want the other rackd first", c.name, got.Next)
		}
		if c.want.Order == Ramdisk {
			p, err := cmdline.Parse(got.CommandLine)
			if err != nil || p.Node != "u-1" || p.BootMAC != mac || len(p.APIURLs) != 2 || len(got.Next) != 2 || !strings.HasPrefix(got.Next[1], "http://10.0.0.2:8080/boot/script?mac=") || p.Fingerprint != strings.Repeat("ab", 32) {
				t.Errorf("%s: command line %q is %+v, %v; next %q", c.name, got.CommandLine, p, err, got.Next)
			}
		}
		got.CommandLine, got.Said, got.Next = "", "", nil
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	for _, bad := range []string{"", "echo hello", "#!ipxe\necho x\n", "#!ipxe\ndhcp\nboot", "#!ipxe\nkernel k || goto failed\nboot ||\n"} {
		if s, err := Parse(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, s)
		}
	}
}

func TestScriptIsTakenFromWhoeverAnswers(t *testing.T) {
	alive := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != netboot.ScriptPath || r.URL.Query().Get("mac") != mac {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte("#!ipxe\nexit 1\n"))
	}))
	defer alive.Close()
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	c := &Client{Rackds: &Rackds{}, Pace: pace.New(pace.Timings{}, 1, 1), Faults: &fault.Faults{}}
	if _, _, err := c.Script(t.Context(), mac); err == nil || !strings.Contains(err.Error(), "no rackd") {
		t.Errorf("without rackds: %v", err)
	}
	c.Rackds.Set([]string{dead.URL, alive.URL, dead.URL})
	for range 5 {
		s, from, err := c.Script(t.Context(), mac)
		if err != nil || !strings.HasPrefix(from, alive.URL+"/") || s.Order != LocalDisk {
			t.Errorf("%+v from %s, %v", s, from, err)
		}
	}
	if _, err := c.Load(t.Context(), alive.URL+"/missing"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a missing file: %v", err)
	}
	c.Faults.Isolate(true)
	if _, _, err := c.Script(t.Context(), mac); err == nil || !strings.Contains(err.Error(), fault.ErrIsolated.Error()) {
		t.Errorf("isolated: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(ipxescript.Write(netboot.Machine{UUID: "u", Order: bootorder.Ramdisk(bootorder.Load{})}, mac, rack))
	f.Add("#!ipxe\ninitrd ||\nsleep x\n")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := Parse(text); err == nil && s.Order == "" {
			t.Errorf("%q has no order and no error", text)
		}
	})
}
