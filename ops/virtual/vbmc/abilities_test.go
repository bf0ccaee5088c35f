package vbmc

import (
	"slices"
	"strings"
	"testing"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
)

func TestHTTPBoot(t *testing.T) {
	b, computer, _, s := connectEquipped(t)
	const uri = "http://10.0.0.1/boot.efi?who=me"
	if err := s.SetBoot(&schemas.Boot{BootSourceOverrideTarget: schemas.UefiHTTPBootSource, BootSourceOverrideEnabled: "Once", HTTPBootURI: gofish.ToRef(uri)}); err != nil {
		t.Fatal(err)
	}
	if device, once := computer.BootOverride(); device != HTTP || !once || computer.uri != uri {
		t.Errorf("override %q, once %t, URI %q", device, once, computer.uri)
	}
	boot := body(t, b, systemPath)["Boot"].(map[string]any)
	if boot["BootSourceOverrideTarget"] != "UefiHttp" || boot["HttpBootUri"] != uri {
		t.Errorf("shown: %v", boot)
	}
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"HttpBootUri":"https://x"}}`, 400, "HttpBootUri", "it trusts nobody")
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"HttpBootUri":7}}`, 400, "Boot/HttpBootUri")
	if w := ask(b, "PATCH", systemPath, `{"Boot":{"HttpBootUri":null}}`); w.Code != 200 || computer.uri != "" {
		t.Errorf("emptying the URI: %d %s, URI %q", w.Code, w.Body, computer.uri)
	}
	if device, once := computer.BootOverride(); device != HTTP || !once {
		t.Errorf("the URI alone changed the override to %q, once %t", device, once)
	}
}

func TestBootOptions(t *testing.T) {
	b, computer, c, _ := connectEquipped(t)
	computer.options = []BootOption{{"Boot0000", "Disk", "PciRoot(0x0)/Pci(0x2,0x0)", true}, {"Boot0003", "Remote", "iSCSI(a)", true}}
	computer.ordered = 2
	s, err := schemas.GetComputerSystem(c, systemPath)
	if err != nil {
		t.Fatal(err)
	}
	options, err := s.BootOptions()
	slices.SortFunc(options, func(x, y *schemas.BootOption) int { return strings.Compare(x.ID, y.ID) })
	if err != nil || len(options) != 2 || options[1].DisplayName != "Remote" || options[1].UefiDevicePath != "iSCSI(a)" || !slices.Equal(s.Boot.BootOrder, []string{"Boot0000", "Boot0003"}) {
		t.Fatalf("options %+v, order %q, %v", options, s.Boot.BootOrder, err)
	}
	if err := s.SetBoot(&schemas.Boot{BootOrder: []string{"Boot0003", "Boot0000"}}); err != nil || computer.options[0].Name != "Boot0003" {
		t.Errorf("reordered: %v, %v", computer.options, err)
	}
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootOrder":["Boot0003"]}}`, 400, "Boot/BootOrder", "missing")
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootOrder":["Boot0009","Boot0000","Boot0003"]}}`, 400, "Boot/BootOrder", "Boot0009")
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootOrder":"Boot0003"}}`, 400, "Boot/BootOrder")
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootOptions":[]}}`, 400, "Boot/BootOptions is a read-only")
	refuses(t, b, "GET", optionsPath+"/Boot0009", "", 404)
}

// What a computer cannot do is not there: neither resources nor words.
func TestWithoutAbilities(t *testing.T) {
	plain, _, _ := serve(t)
	able, computer, _, _ := connectEquipped(t)
	computer.lacks = no("the firmware is not UEFI")
	for _, b := range []*BMC{plain, able} {
		for _, path := range []string{optionsPath, optionsPath + "/Boot0000", secureBootPath, databasesPath, databasesPath + "/db", adaptersPath, functionPath, settingsPath} {
			refuses(t, b, "GET", path, "", 404)
		}
		for _, path := range []string{systemPath, chassisPath} {
			text := ask(b, "GET", path, "").Body.String()
			for _, word := range []string{"UefiHttp", "HttpBootUri", "BootOrder", "BootOptions", "SecureBoot", "NetworkAdapters", "BootProgress"} {
				if strings.Contains(text, word) {
					t.Errorf("%s shows %s: %s", path, word, text)
				}
			}
		}
		refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootSourceOverrideTarget":"UefiHttp","BootSourceOverrideEnabled":"Once"}}`, 400, "UefiHttp", "BootSourceOverrideTarget")
		refuses(t, b, "PATCH", systemPath, `{"Boot":{"HttpBootUri":"http://x"}}`, 400, "HttpBootUri")
		if b == able {
			refuses(t, b, "PATCH", systemPath, `{"Boot":{"HttpBootUri":"http://x"}}`, 400, computer.lacks.Error())
			refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootSourceOverrideTarget":"UefiHttp"}}`, 400, computer.lacks.Error())
		}
		refuses(t, b, "PATCH", secureBootPath, `{"SecureBootEnable":true}`, 404)
		refuses(t, b, "PATCH", settingsPath, `{"iSCSIBoot":{}}`, 404)
	}
}

// What is patched is taken or refused by its name, as a whole.
func TestPatchesNameWhatTheyRefuse(t *testing.T) {
	b, computer, _, _ := connectEquipped(t)
	for _, c := range []struct{ sent, says string }{
		{`{"AssetTag":"x"}`, "AssetTag"},
		{`{"SerialNumber":"x"}`, "SerialNumber is a read-only"},
		{`{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once"},"HostName":"x"}`, "HostName is a read-only"},
		{`{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once","StopBootOnFault":"Never"}}`, "Boot/StopBootOnFault"},
		{`{"Boot":{"BootSourceOverrideTarget":5}}`, "Boot/BootSourceOverrideTarget"},
		{`{"Boot":{"BootSourceOverrideTarget":"Pxe"}}`, "BootSourceOverrideEnabled"},
		{`{"Boot":5}`, "Boot"},
		{`{}`, "no property"},
		{`null`, "no property"},
	} {
		refuses(t, b, "PATCH", systemPath, c.sent, 400, c.says)
	}
	if device, _ := computer.BootOverride(); device != "" {
		t.Errorf("a refused PATCH set %q", device)
	}
	refuses(t, b, "POST", systemPath+"/Actions/ComputerSystem.Reset", `{"ResetType":"On","Delay":5}`, 400, "Delay")
	refuses(t, b, "POST", systemPath+"/Actions/ComputerSystem.Reset", `{}`, 400, "ResetType")
	refuses(t, b, "POST", systemPath+"/Actions/ComputerSystem.Reset", ``, 400, "ResetType")
	if len(computer.calls) != 0 {
		t.Errorf("refused actions reached the computer: %v", computer.calls)
	}
}

// A client reads how far the start has come.
func TestBootProgress(t *testing.T) {
	_, computer, c, s := connectEquipped(t)
	for _, far := range []Progress{NoProgress, InFirmware, PastFirmware} {
		computer.progress = far
		now, err := schemas.GetComputerSystem(c, s.ODataID)
		if err != nil || string(now.BootProgress.LastState) != string(far) {
			t.Errorf("shown as %+v, %v, want %q", now, err, far)
		}
	}
}
