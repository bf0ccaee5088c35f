package fields

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/drivers"
)

// walk is every field that the API takes, by the name that rows have for it.
type walk map[string]bool

// object is a JSON object of the description.
type object = map[string]any

// everything finds the fields.
func everything(t *testing.T, doc object, src *source) walk {
	t.Helper()
	w := walk{}
	w.resources(doc)
	for path, methods := range doc["paths"].(object) {
		for method, o := range methods.(object) {
			w.route(strings.ToUpper(method), strings.TrimPrefix(path, "/v1/"), o.(object))
		}
	}
	w.arguments(doc)
	w.keys(t, src)
	w.steps(t)
	for name := range hardware.RAIDProperties {
		w["logical_disks "+name] = true
	}
	return w
}

// resources adds the fields that a POST or a PATCH of a resource sets: "nodes name".
func (w walk) resources(doc object) {
	schemas := doc["components"].(object)["schemas"].(object)
	for name := range schemas {
		resource, isCreate := strings.CutSuffix(name, ".create")
		if !isCreate {
			continue
		}
		w[resource+" *"] = true
		created := schemas[name].(object)["properties"].(object)
		for field := range created {
			w[resource+" "+field] = true
		}
		for field, p := range schemas[resource].(object)["properties"].(object) {
			if _, links := p.(object)["$ref"]; !links && p.(object)["readOnly"] == nil && field != "nodes" {
				w[resource+" "+field] = true
			}
		}
	}
}

// route adds the members of the bodies of other requests: "PUT nodes/{node}/maintenance reason". What else a body may have
// is "POST continue_inspection *".
func (w walk) route(method, path string, o object) {
	body, has := o["requestBody"].(object)
	if !has {
		return
	}
	schema := body["content"].(object)["application/json"].(object)["schema"].(object)
	if _, ofResource := schema["$ref"]; ofResource {
		return
	}
	w.members(method+" "+path+" ", schema)
}

func (w walk) members(at string, schema object) {
	members, _ := schema["properties"].(object)
	if kind := schema["type"]; schema["additionalProperties"] == nil && (kind == "object" && members != nil || len(schema) == 0) {
		w[at+"*"] = true
	}
	for name, s := range members {
		member := s.(object)
		w[at+name] = true
		if items, isList := member["items"].(object); isList {
			w.members(at+name+"[].", items)
		}
		if member["properties"] != nil {
			w.members(at+name+".", member)
		}
	}
}

// arguments adds what stands behind a question mark: "?owner of allocations", or of the path where it shows no resource.
func (w walk) arguments(doc object) {
	common := []string{"limit", "marker", "sort_key", "sort_dir", "fields", "detail"}
	for path, methods := range doc["paths"].(object) {
		for method, o := range methods.(object) {
			of := strings.ToUpper(method) + " " + strings.TrimPrefix(path, "/v1/")
			if name := listed(o.(object)); name != "" {
				of = "lists of " + name
			}
			for _, p := range o.(object)["parameters"].([]any) {
				param := p.(object)
				name, _ := param["name"].(string)
				switch {
				case param["in"] != "query":
				case slices.Contains(common, name):
					w["?"+name] = true
				default:
					w["?"+name+" of "+of] = true
				}
			}
		}
	}
}

// listed is the resource of which a route answers a list.
func listed(o object) string {
	responses := o["responses"].(object)
	ok, _ := responses["200"].(object)
	content, _ := ok["content"].(object)
	json, _ := content["application/json"].(object)
	schema, _ := json["schema"].(object)
	members, _ := schema["properties"].(object)
	if _, paged := members["next"]; !paged {
		return ""
	}
	for name := range members {
		if name != "next" {
			return name
		}
	}
	return ""
}

// computed are the functions that read keys which they compute, and where those keys stand.
var computed = map[string]string{
	"protocol/node.DriverString": "", "protocol/node.InstanceString": "", // for their callers
	"central/api.checkProperties":                  "central/api.countedProperties",
	"central/api.pinAnew":                          "", // each that ends in _verify_ca, which drivers name
	"rackd/driver/direct.unmet":                    "rackd/driver/direct.refusedFields",
	"rackd/driver/direct.unmetByVolume":            "rackd/driver/direct.layoutFields",
	"rackd/driver/direct.unmetByDisk":              "rackd/driver/direct.layoutFields",
	"rackd/driver/direct.partitionsOf":             "", // which names them
	"rackd/driver/ipmi.number":                     "", // those of parse and bridge
	"rackd/driver/ipmi.truth":                      "",
	"rackd/driver/ipmi.port":                       "",
	"rackd/driver/ipmi.allowed":                    "", // for its callers
	"rackd/driver/snmp.alone":                      "", // for its callers
	"rackd/driver/ipmi.bridge":                     "", // which names them
	"rackd/driver/ipmi.Node":                       "", // those of ilo.OverLAN and irmc.OverLAN
	"rackd/driver/redfish.termsOf":                 "", // those of redfish.ownSSH and ilo.sshFields
	"rackd/driver/redfish.bySSH":                   "",
	"rackd/driver/fake.Validate":                   "", // those that Properties announces as patterns
	"rackd/driver/installer.Validate":              "", // those that Fields announces
	"rackd/driver/installer.Fetch":                 "",
	"rackd/driver/installer.imageOf":               "",
	"rackd/driver/installer.Order":                 "",
	"rackd/driver/anaconda.Validate":               "", // which names them
	"rackd/driver/ansible.Validate":                "", // those of unused
	"rackd/driver/ansible.hintsOf":                 "",
	"rackd/driver/instancefiles.Fetch":             "", // those that Fields announces
	"rackd/driver/instancefiles.Validate":          "",
	"rackd/driver/instancefiles.Order":             "",
	"rackd/driver/instancefiles.check":             "",
	"rackd/driver/fake.delayOf":                    "",
	"rackd/driver/fake.failure":                    "",
	"rackd/driver/iboot.parse":                     "", // as those of snmp
	"rackd/driver/bmc.Host":                        "", // for their callers
	"rackd/driver.WayToBMC":                        "", // all that are there, which it compares
	"rackd/driver/bmc.Port":                        "",
	"rackd/driver/bmc.Missing":                     "",
	"rackd/driver/cisco.Parse":                     "", // those of ucs.fields and cimc.fields
	"rackd/driver/msftocs.parse":                   "", // as those of snmp
	"rackd/driver/vbox.parse":                      "",
	"rackd/driver/snmp.parse":                      "", // those that are required, each of which it reads by its name too
	"rackd/driver/snmp.chosen":                     "", // those of userSecurity
	"rackd/driver/ilo.readSNMP":                    "", // which names them
	"rackd/driver/ilo.protocolOf":                  "", // those of readSNMP
	"rackd/driver/irmc.readUser":                   "", // which names them
	"rackd/driver/irmc.oneOf":                      "", // those of readUser
	"rackd/driver/irmc.isText":                     "", // those of readSNMP and readUser
	"rackd/driver/networkboot.refuseFiles":         "", // those of ownFiles
	"rackd/driver/ownramdisk.Fetch":                "", // those of validateFiles
	"rackd/driver/mediaboot.Validate":              "", // which names them
	"rackd/driver/ownramdisk.Load":                 "", // those of fields
	"rackd/driver/ownramdisk.validateFiles":        "",
	"rackd/driver/mediaboot.removable":             "", // the same
	"rackd/driver/mediaboot.checkRemovable":        "",
	"rackd/driver/mediaboot.image":                 "", // those of ready
	"rackd/driver/mediaboot.Parameters":            "",
	"rackd/driver/mediaboot.Medium":                "",
	"rackd/driver/instancefiles.latest":            "", // those that Fields announces
	"rackd/driver/instancefiles.Bring":             "",
	"rackd/driver/mediaboot.ValidateInstanceFiles": "",
	"rackd/driver/instancefiles.absent":            "",
	"rackd/driver.ignored":                         "", // those that InstanceIgnorers announce
	// secrets that a step replaces, which its driver names
	"rackd/conductor/runner.nodeShows":   "",
	"rackd/conductor/runner.Replace":     "",
	"rackd/conductor/runner.showSecrets": "",
	"rackd/driver/credential.with":       "",
	"rackd/driver/credential.same":       "",
	"central/api.checkAskedSecrets":      "",
	"central/api.checkChosenSecrets":     "",
	"central/ingest.replaceSecrets":      "",
	"rackd/driver/credential.Run":        "",
	"rackd/driver/drivertest.Replaced":   "",
}

// beside are keys that are read of an object under another name than its own.
var beside = []read{{"instance_info", "root_device", "rackd/driver/direct.disk"}, {"properties", "root_device", "rackd/driver/direct.disk"}}

// keys adds those of the free objects, "driver_info deploy_kernel": those that the code reads, that drivers announce and that
// rackd knows to be nothing to say anything about. "driver_info *" are all others.
func (w walk) keys(t *testing.T, src *source) {
	t.Helper()
	add := func(object string, keys ...string) {
		for _, key := range keys {
			w[object+" "+key] = true
		}
	}
	for _, r := range append(src.reads(), beside...) {
		from, known := computed[r.where]
		switch {
		case r.key != "":
			add(r.object, r.key)
		case !known:
			t.Errorf("%s reads a key of %s that it computes: say in the list \"computed\" where its keys stand", r.where, r.object)
		case from != "":
			for _, key := range src.values[from] {
				if !strings.Contains(key, " ") { // no sentence
					add(r.object, key)
				}
			}
		}
	}
	announced := announcedKeys(t)
	add("driver_info", announced["driver_info"]...)
	add("instance_info", announced["instance_info"]...)
	add("instance_info", src.values["rackd/driver.chosen"]...)
	add("properties", src.values["rackd/driver.describing"]...)
	for _, object := range []string{"driver_info", "instance_info", "properties", "capabilities"} {
		add(object, "*")
	}
}

// implementations are all interfaces of all drivers, by "kind name".
func implementations(t *testing.T) map[string]driver.Interface {
	t.Helper()
	set, err := drivers.Open(drivers.Options{Enabled: []string{"redfish", "idrac", "ilo", "ilo5", "irmc", "ipmi", "intel-ipmi", "libvirt", "cisco-ucs-managed", "cisco-ucs-standalone",
		"asrockrack", "seamicro", "msftocs", "amt", "ssh", "vbox", "rpc", "snmp", "iboot", "wol", "manual-management", "fake-hardware"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = set.Close(t.Context()) })
	all := map[string]driver.Interface{}
	for name, kinds := range set.Describe() {
		for kind, impls := range kinds {
			for _, impl := range impls {
				hw, err := set.Resolve(&node.Document{Driver: name, Interfaces: map[string]string{kind: impl}})
				if err != nil {
					t.Fatal(err)
				}
				all[name+" "+kind+" "+impl] = hw.Kinds()[kind].Impl
			}
		}
	}
	return all
}

// announcedKeys are the keys that implementations say they read.
func announcedKeys(t *testing.T) map[string][]string {
	keys := map[string][]string{}
	for _, impl := range implementations(t) {
		keys["driver_info"] = slices.AppendSeq(keys["driver_info"], maps.Keys(impl.Properties()))
		if r, reads := impl.(driver.InstanceReader); reads {
			keys["instance_info"] = append(keys["instance_info"], r.InstanceFields()...)
		}
	}
	return keys
}

// steps adds the arguments of the drivers' steps: "step raid.apply_configuration raid_config".
func (w walk) steps(t *testing.T) {
	t.Helper()
	for _, impl := range implementations(t) {
		source, has := impl.(driver.StepSource)
		if !has {
			continue
		}
		for _, step := range source.NamedSteps(&node.Document{}) {
			for arg := range step.Takes {
				w["step "+step.Interface+"."+step.Name+" "+arg] = true
			}
		}
	}
	for _, verb := range provision.Verbs {
		for _, argument := range slices.Sorted(maps.Keys(w)) {
			if name, is := strings.CutPrefix(argument, "PUT nodes/{node}/states/provision "); is && name != "target" && !strings.Contains(name, "[]") {
				w["verb "+verb.Name+" "+name] = true
			}
		}
	}
}
