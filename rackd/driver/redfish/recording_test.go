package redfish

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// spoken is what a recorded BMC said, by paths.
type spoken map[string]map[string]any

// take takes in what the BMC said at a path. Some recordings hold what it said of a path that leads nowhere.
func (a spoken) take(at string, body map[string]any) {
	if _, refused := body["error"]; body != nil && (!refused || len(body) > 1) {
		a["/"+strings.Trim(at, "/")] = body
	}
}

// at is what the BMC says at a path. The paths of an iLO are the same in capitals and in small letters.
func (a spoken) at(path string) map[string]any {
	if body := a[path]; body != nil || a["/redfish/v1"]["Vendor"] != "HPE" {
		return body
	}
	for other, body := range a {
		if strings.EqualFold(other, path) {
			return body
		}
	}
	return nil
}

// recordings are the names of the BMCs in a folder: a resource a line in NAME.jsonl.gz, or the folders that DMTF's Redfish-Mockup-Creator
// writes below NAME.
func recordings(t *testing.T, folder string) map[string]spoken {
	t.Helper()
	list, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]spoken{}
	for _, e := range list {
		at := filepath.Join(folder, e.Name())
		switch name, packed := strings.CutSuffix(e.Name(), ".jsonl.gz"); {
		case packed:
			found[name] = packedRecording(t, at)
		case e.IsDir():
			if said := recordedFolders(t, at); len(said) > 0 {
				found[name] = said
			}
		}
	}
	return found
}

func packedRecording(t *testing.T, file string) spoken {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	said, lines := spoken{}, bufio.NewReader(z)
	for {
		line, err := lines.ReadBytes('\n')
		var one struct {
			Path string
			Body map[string]any
		}
		if json.Unmarshal(line, &one) == nil {
			said.take(one.Path, one.Body)
		}
		if errors.Is(err, io.EOF) {
			return said
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// recordedFolders reads a folder in which each resource is an index.json at its path. Some begin with redfish/v1, some below it.
func recordedFolders(t *testing.T, folder string) spoken {
	t.Helper()
	below := "/redfish/v1"
	if _, err := os.Stat(filepath.Join(folder, "redfish")); err == nil {
		below = ""
	}
	said := spoken{}
	err := filepath.WalkDir(folder, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "index.json" {
			return err
		}
		raw, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		path, err := filepath.Rel(folder, filepath.Dir(at))
		if err != nil {
			return err
		}
		var body map[string]any
		if json.Unmarshal(raw, &body) == nil {
			said.take(below+"/"+strings.TrimPrefix(filepath.ToSlash(path), "."), body)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if said["/redfish/v1"] == nil {
		return nil
	}
	return said
}

// fixtures are pieces of BMCs that bmclib's authors recorded, and in part shortened. What each BMC said is in these files of bmclib's
// module. A system without a piece has links that lead nowhere.
var fixtures = map[string][]string{
	"bmclib-dell-r6515": {"dell/serviceroot.json", "dell/systems.json", "dell/system.embedded.1.json", "dell/bios.json"},
	"bmclib-dell-r660": {"dell/serviceroot.json", "dell/systems.json", "dell/system.embedded.1.virtualmedia.json", "dell/managers.json",
		"dell/manager.idrac.embedded.1.json", "dell/virtualmedia_collection.json", "dell/virtualmedia_1.json", "dell/virtualmedia_2.json"},
	"bmclib-supermicro-510t": {"serviceroot.json", "systems.json", "systems_1.json", "systems_bios.json", "managers.json", "managers_1.json",
		"updateservice_with_multipart.json", "taskservice.json"},
	"bmclib-supermicro-510t-1.14": {"smc_1.14.0_serviceroot.json", "smc_1.14.0_systems.json", "smc_1.14.0_systems_1.json"},
}

// moduleOf is the folder of bmclib's module, which is one of those that this one needs.
var moduleOf = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/bmc-toolbox/bmclib/v2").Output()
	return strings.TrimSpace(string(out)), err
})

// bmclibRecordings are the recorded BMCs of bmclib.
func bmclibRecordings(t *testing.T) map[string]spoken {
	t.Helper()
	module, err := moduleOf()
	if err != nil {
		t.Fatalf("look for bmclib's module: %v", err)
	}
	found := map[string]spoken{}
	for name, files := range fixtures {
		said := spoken{}
		for _, file := range files {
			raw, err := os.ReadFile(filepath.Join(module, "internal", "redfishwrapper", "fixtures", file))
			if err != nil {
				t.Fatal(err)
			}
			var body map[string]any
			if err := json.Unmarshal(raw, &body); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			at, _ := body["@odata.id"].(string)
			said.take(at, body)
		}
		found[name] = said
	}
	return found
}

// systems are the paths of the nodes' machines, where a BMC has several systems.
var systems = []string{"/redfish/v1/Systems/System_0", "/redfish/v1/Systems/DGX", "/redfish/v1/Systems/Node0"}

// machineIn is the path of a recording's machine; named: the node has to name it.
func machineIn(t *testing.T, said spoken) (at string, named bool) {
	t.Helper()
	members, _ := said["/redfish/v1/Systems"]["Members"].([]any)
	var list []string
	for _, m := range members {
		of, _ := m.(map[string]any)
		path, _ := of["@odata.id"].(string)
		list = append(list, strings.TrimSuffix(path, "/"))
	}
	if len(list) == 0 {
		t.Skip("NOT RUN: this recording is of no machine")
	}
	if i := slices.IndexFunc(list, func(path string) bool { return slices.Contains(systems, path) }); i >= 0 {
		return list[i], len(list) > 1
	}
	return list[0], len(list) > 1
}

// play has the emulator answer as a recorded BMC did. Power and boot device are the emulator's from then on.
func (e *emulator) play(t *testing.T, said spoken) (named map[string]any) {
	t.Helper()
	at, several := machineIn(t, said)
	machine := said.at(at)
	e.set(func() {
		e.recorded, e.system = said, at
		e.power, _ = machine["PowerState"].(string)
		boot, _ := machine["Boot"].(map[string]any)
		e.boot = maps.Clone(boot)
	})
	if several {
		return map[string]any{fieldSystem: at}
	}
	return nil
}
