package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/agent/inventory"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

const gib = 2 << 20 // in sectors of 512 bytes

// block is a device of a machine: its name in /sys/block, its size in sectors, and its files.
type block struct {
	name  string
	size  int
	files map[string]string
}

// big is a disk that is larger than all others: it gets the image where nothing else does.
var big = block{"sdz", 900 * gib, map[string]string{"serial": "BIG"}}

// sysfs builds /sys/block, and /proc/self/mounts, for some devices. A file "place" is where the
// device lies in /sys/devices.
func sysfs(t *testing.T, mounts string, blocks []block) inventory.Machine {
	t.Helper()
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/self/mounts", mounts)
	for _, b := range blocks {
		at := "sys/block/" + b.name
		if place := b.files["place"]; place != "" {
			if err := os.MkdirAll(filepath.Join(root, "sys/block"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(root, place, b.name), filepath.Join(root, at)); err != nil {
				t.Fatal(err)
			}
			at = place + "/" + b.name
		}
		write(at+"/size", strconv.Itoa(b.size))
		for name, text := range b.files {
			write(at+"/"+name, text)
		}
	}
	return inventory.Machine{Root: root}
}

// The table of docs/disks.md and the function agree: for each row, a machine with the row's device,
// which is the last of cases' disks, and what becomes of it.
func TestThePageOfDisks(t *testing.T) {
	hint := func(key string, value any) map[string]any { return map[string]any{key: value} }
	wwn := map[string]string{"wwid": "naa.600508b1001c0123456789abcdef0123"}
	kept := map[string]string{"serial": "K", "wwid": "naa.600508b1001c0123456789abcdef0123"}
	// Page 0x89 has the model of an ATA drive, the second character of each two first.
	ata := map[string]string{"device/vendor": "ATA", "device/model": "SAMSUNG MZ7LH960", "device/vpd_pg89": "\x00\x89" + strings.Repeat("\x00", 112) + "ASSMNU GZML79H06AHRJ0-0050" + strings.Repeat(" ", 14)}
	const port1, port10 = "sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block", "sys/devices/pci0000:00/0000:00:1f.2/ata2/host1/target1:0:0/1:0:0:0/block"
	type machine struct {
		disks  []block // the last is the row's
		mounts string
		root   map[string]any
		// byInstance: root is what the instance asks for.
		byInstance bool
		skip       []any
		known      []agentapi.KnownDisk
	}
	cases := map[string][]machine{
		"hidden":    {{disks: []block{big, {"nvme0c0n1", 10 * gib, map[string]string{"hidden": "1"}}}}},
		"area":      {{disks: []block{big, {"mmcblk0boot0", 10 * gib, nil}}}, {disks: []block{big, {"mmcblk0rpmb", 10 * gib, nil}}}},
		"empty":     {{disks: []block{big, {"sda", 0, map[string]string{"removable": "1"}}}}},
		"size 0":    {{disks: []block{big, {"sda", 0, map[string]string{"serial": "S"}}}}},
		"read-only": {{disks: []block{big, {"sda", 10 * gib, map[string]string{"ro": "1"}}}}},
		"in use":    {{disks: []block{big, {"sda", 10 * gib, map[string]string{"sda1/size": "2048"}}}, mounts: "/dev/sda1 /mnt ext4 rw 0 0"}},
		"removable": {
			{disks: []block{big, {"sda", 10 * gib, map[string]string{"removable": "1"}}}}, {disks: []block{big, {"sda", 10 * gib, map[string]string{"removable": "1", "ro": "1"}}}},
			{disks: []block{big, {"sda", 10 * gib, map[string]string{"removable": "1", "sda1/size": "2048"}}}, mounts: "/dev/sda1 /mnt ext4 rw 0 0"},
			{disks: []block{big, {"sda", 10 * gib, map[string]string{"removable": "1"}}}, root: hint("size", "> 1")},
		},
		"removable and named":              {{disks: []block{big, {"sda", 10 * gib, map[string]string{"removable": "1", "serial": "S"}}}, root: hint("serial", "S")}},
		"removable, not excluded":          {{disks: []block{big, {"sda", 10 * gib, map[string]string{"removable": "1", "serial": "S"}}}, root: hint("serial", "s!= OTHER")}},
		"removable, named by the instance": {{disks: []block{big, {"sda", 10 * gib, map[string]string{"removable": "1", "serial": "S"}}}, root: hint("serial", "S"), byInstance: true}},
		"may be a path to a kept disk": {{disks: []block{big, {"sda", 10 * gib, map[string]string{"serial": "K", "place": port1}}, {"sdb", 10 * gib, map[string]string{"serial": "K", "place": port10}}},
			skip: []any{hint("hctl", "0:0:0:0")}}},
		"kept": {
			{disks: []block{big, {"sda", 10 * gib, kept}}, skip: []any{hint("serial", "K")}},
			{disks: []block{big, {"sda", 10 * gib, map[string]string{"serial": "K", "ro": "1"}}}, skip: []any{hint("serial", "K")}},
			{disks: []block{big, {"sda", 0, map[string]string{"serial": "K"}}}, skip: []any{hint("serial", "K")}},
			{disks: []block{big, {"sda", 10 * gib, kept}}, skip: []any{hint("serial", "600508b1001c0123456789abcdef0123")}}, // as Ironic shows it
			{disks: []block{big, {"sda", 10 * gib, ata}}, skip: []any{hint("model", "SAMSUNG MZ7LH960HAJR-00005")}},
			{disks: []block{big, {"sda", 10 * gib, ata}}, skip: []any{hint("model", "SAMSUNG MZ7LH960")}},
			{disks: []block{big, {"sda", 10 * gib, ata}}, skip: []any{hint("model", "<in>hajr")}},
			{disks: []block{big, {"sda", 10*gib + 1, nil}}, skip: []any{map[string]any{"size": "<range-in>( 10 11 )"}}},
		},
		"all kept": {
			{disks: []block{{"sda", 0, map[string]string{"serial": "K"}}, {"sdb", 10 * gib, map[string]string{"ro": "1", "device/model": "BMC"}}}, skip: []any{hint("serial", "K"), hint("model", "BMC")}},
			{disks: []block{{"sda", 10 * gib, kept}}, skip: []any{hint("serial", "K")}},
		},
		"path to a kept disk": {
			{disks: []block{big, {"sda", 10 * gib, kept}, {"sdb", 10 * gib, wwn}}, skip: []any{hint("serial", "K")}},
			{disks: []block{big, {"sda", 10 * gib, map[string]string{"ro": "1", "serial": "K", "wwid": wwn["wwid"]}}, {"sdb", 10 * gib, wwn}}, skip: []any{hint("serial", "K")}},
			{disks: []block{big, {"sda", 10 * gib, kept}, {"sdb", 10 * gib, map[string]string{"ro": "1", "wwid": wwn["wwid"]}}}, skip: []any{hint("serial", "K")}},
		},
		"read-only path":     {{disks: []block{big, {"sda", 10 * gib, wwn}, {"sdb", 10 * gib, map[string]string{"ro": "1", "wwid": wwn["wwid"]}}}}},
		"none":               {{disks: []block{{"sda", 10 * gib, map[string]string{"removable": "1"}}}}, {disks: []block{{"nvme0c0n1", 10 * gib, map[string]string{"hidden": "1"}}}}, {disks: []block{{"sr0", 10 * gib, nil}}}},
		"none, as inspected": {{disks: []block{{"sda", 10 * gib, map[string]string{"removable": "1"}}}, known: []agentapi.KnownDisk{}}},
		"kept disk unknown": {
			{disks: []block{big, {"sda", 10 * gib, nil}}, skip: []any{hint("by_path", "/dev/disk/by-path/x")}},
			// A drive with several paths has no place, and another disk has one.
			{disks: []block{{"sdz", 900 * gib, map[string]string{"place": port1}}, {"nvme0n1", 10 * gib, map[string]string{"place": "sys/devices/virtual/nvme-subsystem/nvme-subsys0"}}},
				skip: []any{hint("by_path", "/dev/disk/by-path/pci-0000:3b:00.0-nvme-1")}},
			{disks: []block{big, {"sda", 10 * gib, nil}}, skip: []any{hint("serial", "K")}},
		},
		"kept by a pattern, or not": {
			{disks: []block{big, {"sda", 10 * gib, kept}, {"sdb", 10 * gib, nil}}, skip: []any{hint("serial", "<in> k")}},
			{disks: []block{big, {"sda", 10 * gib, kept}, {"sdb", 10 * gib, nil}}, skip: []any{hint("serial", "s!= BIG")}},
			{disks: []block{big, {"sda", 10 * gib, ata}, {"sdb", 10 * gib, nil}}, skip: []any{hint("model", "s!= SSD")}},
			{disks: []block{big, {"sda", 10 * gib, map[string]string{"serial": "K", "ro": "1"}}, {"sdb", 10 * gib, nil}}, skip: []any{hint("serial", "<in> k")}},
		},
		"hides a property":        {{disks: []block{big, {"sda", 10 * gib, nil}}, root: hint("serial", "s!= OTHER")}, {disks: []block{big, {"sda", 10 * gib, nil}}, root: hint("serial", "s<= ZZ")}},
		"one name, several disks": {{disks: []block{big, {"sda", 10 * gib, map[string]string{"serial": "S1", "wwid": wwn["wwid"]}}, {"sdb", 10 * gib, map[string]string{"serial": "S2", "wwid": wwn["wwid"]}}}}},
		"second path":             {{disks: []block{big, {"sda", 10 * gib, wwn}, {"sdb", 10 * gib, wwn}}}},
		"missing":                 {{disks: []block{big, {"sda", 10 * gib, nil}}, known: []agentapi.KnownDisk{{Serial: "BIG", Size: 900 * gib * 512}, {Serial: "GONE", Size: 7}}}},
		"hinted":                  {{disks: []block{big, {"sda", 10 * gib, map[string]string{"serial": "S", "device/model": "M"}}}, root: map[string]any{"serial": "S", "model": "M"}}},
		"other":                   {{disks: []block{big, {"sda", 10 * gib, map[string]string{"serial": "S"}}}, root: hint("serial", "BIG")}, {disks: []block{big, {"sda", 10 * gib, map[string]string{"serial": "S"}}}, root: map[string]any{"serial": []any{"S", "BIG"}, "size": "> 100"}}},
		"no match":                {{disks: []block{big, {"sda", 10 * gib, nil}}, root: hint("serial", "NONE")}},
		"small":                   {{disks: []block{big, {"sda", 3 * gib, nil}}}},
		"smallest":                {{disks: []block{big, {"sda", 10 * gib, nil}}}},
		"equal": {
			{disks: []block{{"sda", 10 * gib, map[string]string{"place": port10}}, {"sdb", 10 * gib, map[string]string{"place": port1}}}},
			{disks: []block{{"sda", 10 * gib, map[string]string{"wwid": "eui.2"}}, {"sdb", 10 * gib, map[string]string{"wwid": "eui.1"}}}},
			{disks: []block{{"sda", 10 * gib, map[string]string{"serial": "S10"}}, {"sdb", 10 * gib, map[string]string{"serial": "S9"}}}},
		},
	}
	for _, name := range []string{"loop0", "ram1", "zram0", "fd0", "sr0", "nbd0", "dm-0", "md127"} {
		cases["virtual"] = append(cases["virtual"], machine{disks: []block{big, {name, 10 * gib, nil}}})
	}
	rows := pageRows(t)
	for rule := range cases {
		if rows[rule] == nil {
			t.Errorf("docs/disks.md has no row %q", rule)
		}
	}
	for rule, want := range rows {
		if len(cases[rule]) == 0 {
			t.Errorf("the row %q of docs/disks.md is not tested", rule)
		}
		for _, c := range cases[rule] {
			m := sysfs(t, c.mounts, c.disks)
			for place, port := range map[string]string{"ata1": "1", "ata2": "10"} {
				at := filepath.Join(m.Root, "sys/class/ata_port", place)
				if err := os.MkdirAll(at, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(at, "port_no"), []byte(port), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			root, err := hints.Parse(c.root)
			if err != nil {
				t.Fatal(err)
			}
			root.ByInstance = c.byInstance
			keep, err := hints.ParseKept(c.skip)
			if err != nil {
				t.Fatal(err)
			}
			image, erased := outcome(hints.Rules{Root: root, Kept: keep, Known: c.known}, m, "/dev/"+c.disks[len(c.disks)-1].name)
			if image != want[0] || erased != want[1] {
				t.Errorf("%s, %+v: gets the image: %s, is erased: %s; the page says %s and %s", rule, c.disks[len(c.disks)-1], image, erased, want[0], want[1])
			}
		}
	}
}

// outcome is what becomes of one device, in the page's words.
func outcome(r hints.Rules, m inventory.Machine, device string) (image, erased string) {
	d, err := r.Decide(m.Look())
	if err != nil {
		return "fails", "fails"
	}
	image, erased = "no", "no"
	switch {
	case d.NoImage != nil:
		image = "fails"
	case d.Image.Name == device:
		image = "yes"
	}
	for _, e := range d.Erased {
		if e.Name == device {
			erased = "yes"
		}
	}
	unerased := slices.ContainsFunc(d.Unerased, func(u agentapi.UnfitDisk) bool { return u.Name == device })
	if fails := d.Cleaned() != nil; fails != (unerased || d.NoErasure != nil) {
		return image, "unclear"
	} else if fails {
		erased = "fails"
	}
	return image, erased
}

// pageRows reads the table: rule → what gets the image, what is erased.
func pageRows(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/disks.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	_, table, found := strings.Cut(string(page), "| rule | device | gets the image | is erased |\n|---|---|---|---|\n")
	if !found {
		t.Fatal("docs/disks.md has no table of rules")
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 4 {
			break
		}
		rows[strings.TrimPrefix(cells[0], "| ")] = []string{cells[2], strings.TrimSuffix(cells[3], " |")}
	}
	return rows
}
