package redfish

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// The kinds of parts with firmware of their own, as their components' names begin.
const (
	kindNIC   = "nic"
	kindDrive = "drive"
	kindPSU   = "psu"
)

var partKinds = []string{kindNIC, kindDrive, kindPSU}

// Bounds of one reading of a machine's parts.
const (
	mostQuestions = 300 // requests
	mostParts     = 128 // of one collection
	mostListed    = 512 // of the machine
	mostInventory = 256 // of the BMC's list of firmware
	longestName   = 255 // of a component, as in Ironic
)

// joint stands between the versions of an adapter whose controllers tell different ones.
const joint = " + "

// part is a network adapter, a drive or a power supply.
type part struct {
	hardware.Component // without a version where the BMC tells none
	kind, id, of, path string
	// told is how many of its controllers tell a version. listed: the BMC's list of firmware tells it, not the part.
	told   int
	listed bool
}

// forms are the names that a part goes by, from the best to one that no other part has. Ironic calls an adapter by its serial number. A
// drive or a power supply is called by its bay.
func (p part) forms() []string {
	list := []string{p.kind + ":" + p.id, p.kind + ":" + p.of + "/" + p.id, p.kind + ":" + strings.TrimPrefix(p.path, "/redfish/v1/")}
	if serial := word(p.Serial).version(); p.kind == kindNIC && serial != "" {
		list = slices.Insert(list, 0, p.kind+":"+serial)
	}
	return list
}

// word is a text that a BMC may leave out, or write as something else. Then it is empty.
type word string

// UnmarshalJSON never fails.
func (w *word) UnmarshalJSON(raw []byte) error {
	var text string
	_ = json.Unmarshal(raw, &text)
	if text = bmc.Clean(text); len(text) > longestName {
		text = ""
	}
	*w = word(text)
	return nil
}

// unsaid are what BMCs write for a version, or a serial number, that they do not know.
var unsaid = []string{"n/a", "na", "nil", "none", "null", "unknown", "undefined", "not available", "notavailable", "-"}

// version is the text, empty for one that says that there is none.
func (w word) version() string {
	if slices.Contains(unsaid, strings.ToLower(string(w))) || strings.Trim(string(w), "0. ") == "" {
		return ""
	}
	return string(w)
}

// partResource is what the resources of all kinds of parts have, and what some have.
type partResource struct {
	ref
	ID                                word `json:"Id"`
	MemberID                          word `json:"MemberId"`
	Manufacturer, Model, SerialNumber word
	FirmwareVersion, Revision         word // Revision is of drives
	Controllers                       []struct{ FirmwarePackageVersion word }
	Status                            struct{ State word }
}

// absent: the resource is of an empty bay.
func (r partResource) absent() bool { return r.Status.State == "Absent" }

// versions are the versions that the resource tells, each once, and how many of its controllers tell one.
func (r partResource) versions(kind string) (text string, told int) {
	if kind != kindNIC {
		text = r.FirmwareVersion.version()
		if text == "" && kind == kindDrive {
			text = r.Revision.version()
		}
		return text, 0
	}
	var list []string
	for _, c := range r.Controllers {
		if v := c.FirmwarePackageVersion.version(); v != "" {
			told++
			if !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
	}
	return strings.Join(list, joint), told
}

// partSurvey is one reading of a machine's parts. A part that the BMC refuses to show is left out.
type partSurvey struct {
	survey
	left int  // requests
	cut  bool // there is more than was read
	list []part
	seen map[string]bool
}

func newPartSurvey(c *gofish.APIClient) *partSurvey {
	return &partSurvey{survey: survey{c: c, expand: expansion(c)}, left: mostQuestions, seen: map[string]bool{}}
}

// withoutThis reports whether the reading goes on without what was asked for: the BMC refuses it, or writes it in a form of its own.
func withoutThis(err error) bool {
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); odd {
		return true
	}
	code := status(err)
	return code != 0 && code != http.StatusUnauthorized && code != http.StatusServiceUnavailable
}

// get reads a resource, with one of the requests that are left.
func (v *partSurvey) get(at string, into any) (there bool, err error) {
	there, _, err = v.getCode(at, into)
	return there, err
}

func (v *partSurvey) getCode(at string, into any) (there bool, code int, err error) {
	if at == "" {
		return false, 0, nil
	}
	if v.left == 0 {
		v.cut = true
		return false, 0, nil
	}
	v.left--
	switch err = fetch(v.c, at, into); {
	case err == nil:
		return true, http.StatusOK, nil
	case withoutThis(err):
		return false, status(err), nil
	}
	return false, status(err), err
}

// collection reads the members of a collection, up to most of them. take is given each with its path.
func (v *partSurvey) collection(at string, most int, take func(at string, raw json.RawMessage)) error {
	expand := v.expand
	for count := 0; at != ""; {
		var page struct {
			Members []json.RawMessage
			Next    string `json:"Members@odata.nextLink"`
		}
		there, code, err := v.getCode(at+expand, &page)
		if expand != "" && err == nil && code >= 400 && code < 500 && code != http.StatusNotFound {
			v.expand, expand = "", "" // the BMC says that it can, and cannot
			there, err = v.get(at, &page)
		}
		if err != nil || !there {
			return err
		}
		for _, raw := range page.Members {
			if count++; count > most {
				v.cut = true
				return nil
			}
			var link ref
			var fields map[string]json.RawMessage
			if json.Unmarshal(raw, &link) != nil || json.Unmarshal(raw, &fields) != nil || link.Path == "" {
				continue
			}
			if len(fields) == 1 { // a link
				if there, err := v.get(link.Path, &raw); err != nil {
					return err
				} else if !there {
					continue
				}
			}
			take(link.Path, raw)
		}
		if at = page.Next; strings.Contains(at, "?") {
			expand = "" // the link has it
		}
	}
	return nil
}

// add takes in a part of its kind, once.
func (v *partSurvey) add(kind, of, at string, r partResource) {
	key := strings.ToLower(strings.TrimSuffix(at, "/"))
	if v.seen[key] || r.absent() {
		return
	}
	if len(v.list) == mostListed {
		v.cut = true
		return
	}
	v.seen[key] = true
	p := part{kind: kind, of: of, path: at, id: string(cmp.Or(r.ID, r.MemberID, word(path.Base(strings.TrimSuffix(at, "/")))))}
	p.Vendor, p.Model, p.Serial = string(r.Manufacturer), string(r.Model), string(r.SerialNumber)
	p.Current, p.told = r.versions(kind)
	v.list = append(v.list, p)
}

// members adds the members of a collection of parts.
func (v *partSurvey) members(kind, of, at string) error {
	return v.collection(at, mostParts, func(at string, raw json.RawMessage) {
		var r partResource
		if json.Unmarshal(raw, &r) == nil {
			v.add(kind, of, at, r)
		}
	})
}

// partChassis is a chassis, as far as parts are found by it.
type partChassis struct {
	chassis
	ID                    word `json:"Id"`
	Power, PowerSubsystem ref
}

// read reads all parts of the system.
func (v *partSurvey) read(s *System) error {
	var p parts
	if err := json.Unmarshal(s.raw, &p); err != nil {
		return fmt.Errorf("its system cannot be read: %w", err)
	}
	if err := errors.Join(v.inChassis(s, p), v.drives(p)); err != nil {
		return err
	}
	return v.fromInventory()
}

// inChassis reads network adapters and power supplies. Adapters may be in any chassis that lies around the system's, or in them, as those
// whose ports are found (survey.adapters); where there are none, they may be in one that names the system alone. A power supply of a
// chassis around it may be other machines' as well: it is read where the chassis names this system alone.
func (v *partSurvey) inChassis(s *System, p parts) error {
	type place struct {
		ref
		around, named bool
	}
	found, err := v.chassisOf(p)
	if err != nil && !withoutThis(err) {
		return err
	}
	var todo []place
	for _, r := range found {
		todo = append(todo, place{ref: r})
	}
	been, named := map[string]bool{}, false
	for {
		if len(todo) == 0 && !named && !slices.ContainsFunc(v.list, func(p part) bool { return p.kind == kindNIC }) {
			named = true
			var all struct{ Members []ref }
			if _, err := v.get("/redfish/v1/Chassis", &all); err != nil {
				return err
			}
			for _, r := range all.Members {
				todo = append(todo, place{r, true, true})
			}
		}
		if len(todo) == 0 {
			break
		}
		at := todo[0]
		todo = todo[1:]
		if been[at.Path] || at.Path == "" {
			continue
		}
		if len(been) == mostChassis {
			v.cut = true
			break
		}
		been[at.Path] = true
		var k partChassis
		there, err := v.get(at.Path, &k)
		if err != nil {
			return err
		}
		of := k.Links.ComputerSystems
		ours := slices.ContainsFunc(of, func(r ref) bool { return samePath(r.Path, s.Path) })
		if !there || len(of) > 0 && !ours || at.named && !k.namesOnly(s) {
			continue
		}
		todo = append(todo, place{ref: k.Links.ContainedBy.ref, around: true})
		for _, r := range k.Links.Contains {
			todo = append(todo, place{ref: r, around: at.around})
		}
		id := string(cmp.Or(k.ID, word(path.Base(at.Path))))
		if err := v.members(kindNIC, id, k.NetworkAdapters.Path); err != nil {
			return err
		}
		if at.around && (!ours || len(of) > 1) {
			continue
		}
		if err := v.supplies(id, k); err != nil {
			return err
		}
	}
	return nil
}

// supplies reads a chassis' power supplies, in the form in which it has them.
func (v *partSurvey) supplies(of string, k partChassis) error {
	var all struct{ PowerSupplies []partResource }
	if _, err := v.get(k.Power.Path, &all); err != nil {
		return err
	}
	for i, r := range all.PowerSupplies {
		if i == mostParts {
			v.cut = true
			break
		}
		v.add(kindPSU, of, memberPath(k.Power.Path, i, r), r)
	}
	if len(all.PowerSupplies) > 0 {
		return nil
	}
	var newer struct{ PowerSupplies ref }
	if _, err := v.get(k.PowerSubsystem.Path, &newer); err != nil {
		return err
	}
	return v.members(kindPSU, of, newer.PowerSupplies.Path)
}

// memberPath is where a member of a chassis' Power is. BMCs write it in several ways.
func memberPath(power string, at int, r partResource) string {
	return power + "#/PowerSupplies/" + cmp.Or(string(r.MemberID), fmt.Sprint(at))
}

// drives reads the drives of the system's storage.
func (v *partSurvey) drives(p parts) error {
	type storage struct {
		ID     word `json:"Id"`
		Drives []ref
	}
	var all []storage
	err := v.collection(p.Storage.Path, mostParts, func(at string, raw json.RawMessage) {
		var k storage
		if json.Unmarshal(raw, &k) == nil {
			k.ID = cmp.Or(k.ID, word(path.Base(at)))
			all = append(all, k)
		}
	})
	if err != nil {
		return err
	}
	for _, k := range all {
		for i, link := range k.Drives {
			if i == mostParts {
				v.cut = true
				break
			}
			var r partResource
			if there, err := v.get(link.Path, &r); err != nil {
				return err
			} else if there {
				v.add(kindDrive, string(k.ID), link.Path, r)
			}
		}
	}
	return nil
}

// fromInventory completes parts that tell no version by the BMC's list of firmware, where an entry names the part. Entries of several
// versions, such as one to come and one of before, tell none.
func (v *partSurvey) fromInventory() error {
	if !slices.ContainsFunc(v.list, func(p part) bool { return p.Current == "" }) {
		return nil
	}
	var root struct{ UpdateService ref }
	var service struct{ FirmwareInventory ref }
	if _, err := v.get("/redfish/v1", &root); err != nil {
		return err
	}
	if _, err := v.get(root.UpdateService.Path, &service); err != nil {
		return err
	}
	type entry struct {
		Version     word
		RelatedItem []ref
	}
	of := map[string][]string{}
	key := func(at string) string {
		return strings.ToLower(strings.TrimSuffix(strings.Replace(at, "#/", "#", 1), "/"))
	}
	err := v.collection(service.FirmwareInventory.Path, mostInventory, func(_ string, raw json.RawMessage) {
		var e entry
		if json.Unmarshal(raw, &e) != nil || e.Version.version() == "" {
			return
		}
		for _, r := range e.RelatedItem {
			if !slices.Contains(of[key(r.Path)], e.Version.version()) {
				of[key(r.Path)] = append(of[key(r.Path)], e.Version.version())
			}
		}
	})
	for i, p := range v.list {
		if told := of[key(p.path)]; p.Current == "" && len(told) == 1 {
			v.list[i].Current, v.list[i].listed = told[0], true
		}
	}
	return err
}

// name gives each part the first of its names that no other part has.
func (v *partSurvey) name() {
	count := map[string]int{}
	for _, p := range v.list {
		for _, form := range p.forms() {
			count[form]++
		}
	}
	for i, p := range v.list {
		forms := p.forms()
		at := slices.IndexFunc(forms, func(form string) bool { return count[form] == 1 })
		if at < 0 {
			at = len(forms) - 1
		}
		v.list[i].Name = forms[at]
	}
	v.list = slices.DeleteFunc(v.list, func(p part) bool { return len(p.Name) > longestName })
}

// partsOf reads the parts of a system.
func partsOf(c *gofish.APIClient, s *System) (*partSurvey, error) {
	v := newPartSurvey(c)
	if err := v.read(s); err != nil {
		return nil, err
	}
	v.name()
	return v, nil
}
