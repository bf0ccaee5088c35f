// Package hints chooses the disk that an image is written to, by Ironic's root
// device hints (ironic-facts §5.6).
//
// It may import protocol/agentapi only and touches no device. Decide is its one decision. Every
// hint must match; without hints the smallest disk of at least the minimum size wins. Ties are broken
// by the disk's place, WWN and serial number, so that the same machine always chooses the same disk.
package hints

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// DefaultMinBytes is the least size of a disk that is chosen without being asked for.
const DefaultMinBytes = 4 << 30

const gib = 1 << 30

// property returns the texts of a disk that a hint is compared with.
type property struct {
	numeric bool
	values  func(agentapi.Disk) []string
}

func one(f func(agentapi.Disk) string) property {
	return property{values: func(d agentapi.Disk) []string { return []string{f(d)} }}
}

var properties = map[string]property{
	"size":                 {true, func(d agentapi.Disk) []string { return []string{strconv.FormatInt(d.Size/gib, 10)} }},
	"model":                one(func(d agentapi.Disk) string { return d.Model }),
	"vendor":               one(func(d agentapi.Disk) string { return d.Vendor }),
	"serial":               one(func(d agentapi.Disk) string { return d.Serial }),
	"wwn":                  {values: func(d agentapi.Disk) []string { return []string{d.WWN, d.WWNWithExtension} }},
	"wwn_with_extension":   one(func(d agentapi.Disk) string { return d.WWNWithExtension }),
	"wwn_vendor_extension": one(func(d agentapi.Disk) string { return d.WWNVendorExtension }),
	"name":                 one(func(d agentapi.Disk) string { return d.Name }),
	"rotational":           one(func(d agentapi.Disk) string { return strconv.FormatBool(d.Rotational) }),
	"hctl":                 one(func(d agentapi.Disk) string { return d.HCTL }),
	"by_path":              {values: byPath},
	"tran":                 one(func(d agentapi.Disk) string { return d.Tran }),
}

var ataTarget = regexp.MustCompile(`(-ata-\d+)\.\d+$`)

// byPath are the names by which udev links a disk's place: newer ones and those that they
// replaced, which operators' hints may still hold.
func byPath(d agentapi.Disk) []string {
	names := []string{d.ByPath}
	if old := ataTarget.ReplaceAllString(d.ByPath, "$1"); old != d.ByPath {
		names = append(names, old)
	}
	if rest, ok := strings.CutPrefix(d.ByPath, "/dev/disk/by-path/pci-"); ok && d.Tran == "virtio" {
		names = append(names, "/dev/disk/by-path/virtio-pci-"+rest)
	}
	return names
}

// scsiModel is how many characters SCSI has for a model.
const scsiModel = 16

// formerNames are what ironic-python-agent calls a property: udev's serial number of a SCSI disk is its name by page 0x83, and ours the
// one of page 0x80. They do not count as shown: a disk that hides its own is missed.
func formerNames(key string, d agentapi.Disk) []string {
	if id, is := strings.CutPrefix(d.WWNWithExtension, "0x"); is && key == "serial" {
		return []string{id}
	}
	if key == "model" && d.Vendor == "ATA" && len(d.Model) > scsiModel { // as SCSI tells it, and this agent did before
		return []string{strings.TrimSpace(d.Model[:scsiModel])}
	}
	return nil
}

// naming are the hints that mean one disk, not a kind of disk.
var naming = []string{"by_path", "hctl", "name", "serial", "wwn", "wwn_with_extension"}

// Hints is a parsed set of hints.
type Hints struct {
	rules []rule
	// ByInstance: they are those of an instance, which choose among the disks that are not removable.
	ByInstance bool
}

type rule struct {
	key string
	// any holds alternatives: a list in the hints matches if one of it does.
	any  []expression
	text string
}

// Parse reads properties.root_device or its kin. Unknown keys and unreadable
// expressions are errors: a hint that is skipped may cost somebody's data.
func Parse(raw map[string]any) (Hints, error) {
	var h Hints
	for key, value := range raw {
		p, known := properties[key]
		if !known {
			return Hints{}, fmt.Errorf("root device hint %q is unknown (known: %s)", key, strings.Join(Keys(), ", "))
		}
		values, ok := value.([]any)
		if !ok {
			values = []any{value}
		}
		r := rule{key: key, text: fmt.Sprintf("%s=%v", key, value)}
		for _, v := range values {
			text, err := scalar(key, v)
			if err == nil && key == "rotational" {
				text, err = boolean(text)
			}
			var e expression
			if err == nil {
				e, err = parse(strings.ToLower(text), p.numeric)
			}
			if err != nil {
				return Hints{}, fmt.Errorf("root device hint %s=%v: %w", key, v, err)
			}
			r.any = append(r.any, e)
		}
		if len(r.any) == 0 {
			return Hints{}, fmt.Errorf("root device hint %s is an empty list", key)
		}
		h.rules = append(h.rules, r)
	}
	slices.SortFunc(h.rules, func(a, b rule) int { return strings.Compare(a.key, b.key) })
	return h, nil
}

// Kept are the disks that nothing may be written to: those that match any of its hints.
type Kept []Hints

// ParseKept reads properties.skip_block_devices, a list of hints; nil keeps no disk. What cannot
// be read, and hints that would match every disk, are errors.
func ParseKept(raw any) (Kept, error) {
	list, isList := raw.([]any)
	if raw != nil && raw != "" && !isList {
		return nil, fmt.Errorf("skip_block_devices must be a list of hints")
	}
	var kept Kept
	for i, item := range list {
		of, isObject := item.(map[string]any)
		if !isObject || len(of) == 0 {
			return nil, fmt.Errorf("skip_block_devices: item %d must be an object of hints", i+1)
		}
		h, err := Parse(of)
		if err != nil {
			return nil, fmt.Errorf("skip_block_devices: item %d: %w", i+1, err)
		}
		each, err := h.apart()
		if err != nil {
			return nil, fmt.Errorf("skip_block_devices: item %d: %w", i+1, err)
		}
		kept = append(kept, each...)
	}
	return kept, nil
}

// UnknownError says that a disk which is to be kept cannot be told from the others.
type UnknownError struct {
	Key, Hint string
	Disk      string // the disk that may be the one, of those that show no Key; empty: no disk shows it
	Twin      string // the kept disk that Disk may be another path to, empty for none
}

func (e *UnknownError) Error() string {
	if e.Twin != "" {
		return fmt.Sprintf("skip_block_devices keeps %s; %s has its serial number and size (%s), shows no other WWN, and may be another path to it: nothing is written, because the agent cannot tell; keep both, or look why their controller shows no WWN",
			e.Twin, e.Disk, e.Hint)
	}
	if e.Disk != "" {
		return fmt.Sprintf("skip_block_devices keeps a disk by %s; %s shows no %s and may be that disk: nothing is written, because the agent cannot tell; name the disk to keep by another property",
			e.Hint, e.Disk, e.Key)
	}
	return fmt.Sprintf("skip_block_devices keeps a disk by %s, but no disk of this machine shows its %s: nothing is written, because the agent cannot tell which disk to keep; name that disk by another property", e.Hint, e.Key)
}

// FaultType names the error as ironic-python-agent does.
func (e *UnknownError) FaultType() string { return "BlockDeviceError" }

// Check returns an *UnknownError for a hint whose property none of the disks has. So it does for a hint that fits no disk and
// may mean one that hides what names it, and that no other hint keeps. Without disks there is nothing to tell apart.
func (k Kept) Check(disks []agentapi.Disk) error { return k.missed(disks, nil) }

// missed is Check on a machine that has other disks too. A hint that keeps one of those keeps no other, unless it may mean several.
func (k Kept) missed(disks []agentapi.Disk, unfit []agentapi.UnfitDisk) error {
	for _, h := range k {
		found := slices.ContainsFunc(unfit, func(u agentapi.UnfitDisk) bool { return h.Match(u.Disk) })
		if found && !h.several() {
			continue
		}
		for _, r := range h.rules {
			shown := slices.ContainsFunc(disks, func(d agentapi.Disk) bool { return r.shown(d) })
			if !shown && !found && len(disks) > 0 {
				return &UnknownError{Key: r.key, Hint: r.text}
			}
		}
		if slices.ContainsFunc(disks, h.Match) && !h.several() {
			continue
		}
		for _, d := range k.Others(disks) { // what another hint keeps is kept, whatever it hides
			if r, may := h.mayMean(d); may {
				return &UnknownError{Key: r.key, Hint: r.text, Disk: d.Name}
			}
		}
	}
	return nil
}

// check is Check on a machine that has other disks too, to which nothing can be written. One of these may be what is kept, and a disk
// that can be written to another path to it.
func (k Kept) check(disks []agentapi.Disk, unfit []agentapi.UnfitDisk) error {
	if err := k.missed(disks, unfit); err != nil {
		return err
	}
	all := slices.Clone(disks)
	for _, u := range unfit {
		all = append(all, u.Disk)
	}
	others := k.Others(all)
	open := func(d agentapi.Disk) bool {
		return slices.ContainsFunc(others, func(o agentapi.Disk) bool { return o.Name == d.Name })
	}
	for _, kept := range all {
		if open(kept) {
			continue
		}
		for _, d := range disks {
			if open(d) && mayBePath(d, kept) {
				return &UnknownError{Hint: "serial=" + kept.Serial, Disk: d.Name, Twin: kept.Name}
			}
		}
	}
	return nil
}

// mayBePath reports whether a disk may be another path to one that is kept: both have one serial number, maker and size, and their
// world wide names do not tell them apart. Arrays give several volumes one serial number, so that it is not certain.
func mayBePath(d, kept agentapi.Disk) bool {
	return d.Serial != "" && strings.EqualFold(d.Serial, kept.Serial) && d.Size == kept.Size && d.Vendor == kept.Vendor && d.Model == kept.Model &&
		(d.WWNWithExtension == "" || kept.WWNWithExtension == "")
}

// inherent are the hints by what each disk has, whether the machine shows it or not.
var inherent = []string{"by_path", "serial", "wwn", "wwn_with_extension"}

// several reports whether hints by what names a disk, or is not to be, may mean more than one: a disk that they fit does not vouch for
// another then.
func (h Hints) several() bool {
	return slices.ContainsFunc(h.rules, func(r rule) bool {
		return r.excludes() || slices.Contains(inherent, r.key) && slices.ContainsFunc(r.any, func(e expression) bool { return e.op != opSame && e.op != "s==" })
	})
}

// mayMean reports whether a disk may be the one that the hints name: it does not show the property of one of them, which is
// returned, and fits the others. Removable disks are not written to unless they are named themselves.
func (h Hints) mayMean(d agentapi.Disk) (lacks rule, may bool) {
	if d.Removable {
		return rule{}, false
	}
	for _, r := range h.rules {
		switch {
		case !r.shown(d) && (r.excludes() || slices.Contains(inherent, r.key)):
			lacks, may = r, true
		case !(Hints{rules: []rule{r}}).Match(d):
			return rule{}, false
		}
	}
	return lacks, may
}

// Usable returns the disks that may be used: all that are not removable, and those that the hints name. Hints of an instance
// name none: they are gone when the machine is cleaned, and such a disk would keep the tenant's data.
func (h Hints) Usable(disks []agentapi.Disk) []agentapi.Disk {
	named := !h.ByInstance && slices.ContainsFunc(h.rules, rule.names)
	return slices.DeleteFunc(slices.Clone(disks), func(d agentapi.Disk) bool {
		return d.Removable && !(named && h.Match(d))
	})
}

// names reports whether a hint says which disk is meant, and not only which one is not.
func (r rule) names() bool {
	return slices.Contains(naming, r.key) && !r.excludes()
}

// excludes reports whether a hint leaves more texts open than it names: a disk that hides its own may well have one of them.
func (r rule) excludes() bool {
	return slices.ContainsFunc(r.any, func(e expression) bool {
		return slices.Contains([]string{"s!=", "s>=", "s>", "s<=", "s<"}, e.op)
	})
}

// shown reports whether a disk shows the property of a hint.
func (r rule) shown(d agentapi.Disk) bool {
	return slices.ContainsFunc(properties[r.key].values(d), func(v string) bool { return v != "" })
}

// Others returns the disks that may be written to. A disk with several paths, which shows itself
// once for each, is kept whole where one of them is.
func (k Kept) Others(disks []agentapi.Disk) []agentapi.Disk {
	var kept []agentapi.Disk
	for _, d := range disks {
		if slices.ContainsFunc(k, func(h Hints) bool { return h.Match(d) }) {
			kept = append(kept, d)
		}
	}
	return slices.DeleteFunc(slices.Clone(disks), func(d agentapi.Disk) bool {
		return slices.ContainsFunc(kept, func(other agentapi.Disk) bool { return d.Name == other.Name || Same(d, other) })
	})
}

// Leave returns the disks that are not kept: of those that an image may go to, and of the others.
// It fails where a kept disk cannot be told.
func (k Kept) Leave(disks []agentapi.Disk, unfit []agentapi.UnfitDisk) ([]agentapi.Disk, []agentapi.UnfitDisk, error) {
	if err := k.check(disks, unfit); err != nil {
		return nil, nil, err
	}
	all := slices.Clone(disks)
	for _, u := range unfit { // a path to a kept disk may be read-only
		all = append(all, u.Disk)
	}
	kept := func(name string) bool {
		return !slices.ContainsFunc(k.Others(all), func(o agentapi.Disk) bool { return o.Name == name })
	}
	return slices.DeleteFunc(slices.Clone(disks), func(d agentapi.Disk) bool { return kept(d.Name) }),
		slices.DeleteFunc(slices.Clone(unfit), func(u agentapi.UnfitDisk) bool { return kept(u.Name) }), nil
}

// path reports whether two devices are paths to one disk, for what is then not erased: also their serial numbers agree. There
// are disks whose maker gave all of them one name.
func path(a, b agentapi.Disk) bool {
	return Same(a, b) && (a.Serial == "" || b.Serial == "" || strings.EqualFold(a.Serial, b.Serial))
}

// Same reports whether two devices are paths to one disk: they have one world wide name.
func Same(a, b agentapi.Disk) bool {
	return a.WWNWithExtension != "" && a.WWNWithExtension == b.WWNWithExtension && a.Size == b.Size
}

// Keys lists the hints there are, sorted.
func Keys() []string {
	keys := make([]string, 0, len(properties))
	for k := range properties {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// Match reports whether every hint matches the disk. As in Ironic, no hint matches a disk that does not show its property.
func (h Hints) Match(d agentapi.Disk) bool {
	for _, r := range h.rules {
		p := properties[r.key]
		ok := false
		for _, e := range r.any {
			fits := func(have string) bool {
				return e.matches(strings.ToLower(strings.Join(strings.Fields(have), " ")), p.numeric)
			}
			names := slices.DeleteFunc(slices.Concat(p.values(d), formerNames(r.key, d)), func(have string) bool { return have == "" })
			if r.key == "size" && slices.Contains([]string{">", "<=", opRangeIn}, e.op) {
				// Ironic compares fractions. A hint for one size, which operators round down, fits by the whole number.
				names = []string{strconv.FormatFloat(float64(d.Size)/gib, 'f', -1, 64)}
			}
			if e.op == "s!=" { // a disk is excluded by each of its names
				ok = ok || r.shown(d) && !slices.ContainsFunc(names, func(have string) bool { return !fits(have) })
			} else {
				ok = ok || slices.ContainsFunc(names, fits)
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

// String gives the hints as text for messages.
func (h Hints) String() string {
	if len(h.rules) == 0 {
		return "none"
	}
	texts := make([]string, len(h.rules))
	for i, r := range h.rules {
		texts[i] = r.text
	}
	return strings.Join(texts, ", ")
}

// NoDiskError says that no disk was fit, and what there was.
type NoDiskError struct {
	Hints    Hints
	MinBytes int64 // 0 when hints decided
	Disks    []agentapi.Disk
}

func (e *NoDiskError) Error() string {
	found := "the machine shows no disk at all: check its storage controller and that the ramdisk has its driver"
	if len(e.Disks) > 0 {
		found = "found " + list(e.Disks)
	}
	if len(e.Hints.rules) > 0 {
		return fmt.Sprintf("no disk matches the root device hints (%s); %s", e.Hints, found)
	}
	return fmt.Sprintf("no disk of at least %d bytes; %s", e.MinBytes, found)
}

// FaultType names the error in the agent's API as ironic-python-agent does.
func (e *NoDiskError) FaultType() string { return "DeviceNotFound" }

// scalar is a value as text. As in Ironic, a number is a text for the size only: a serial number of 17 digits, read as a JSON
// number, is another one.
func scalar(key string, v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		if key == "rotational" {
			return strconv.FormatBool(v), nil
		}
	case float64:
		if properties[key].numeric {
			return strconv.FormatFloat(v, 'f', -1, 64), nil
		}
	case int:
		if properties[key].numeric {
			return strconv.Itoa(v), nil
		}
	}
	return "", fmt.Errorf("a %T is not a text: write it in quotes", v)
}

func boolean(s string) (string, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "t", "yes", "y", "on", "1":
		return "true", nil
	case "false", "f", "no", "n", "off", "0":
		return "false", nil
	}
	return "", fmt.Errorf("%q is neither true nor false", s)
}
