package smbios

import "testing"

const (
	one = "4c4c4544-0038-4d10-8058-b4c04f4d3433"
	// oneMixed is the same, its first three fields little endian.
	oneMixed = "44454C4C-3800-104D-8058-B4C04F4D3433"
	two      = "4c4c4544-0038-4d10-8058-b4c04f4d3434"
)

func TestWhatTellsMachinesApart(t *testing.T) {
	for _, c := range []struct {
		name              string
		a, b              System
		differ, conflicts bool
	}{
		{name: "nothing said"},
		{name: "the same", a: System{UUID: one, Serial: "A1"}, b: System{UUID: one, Serial: "A1"}},
		{name: "letters and spaces", a: System{UUID: one, Serial: " a1-b "}, b: System{UUID: " {4C4C4544-0038-4D10-8058-B4C04F4D3433}", Serial: "A1B"}},
		{name: "urn", a: System{UUID: "urn:uuid:" + one}, b: System{UUID: one}},
		{name: "the other order of bytes", a: System{UUID: one}, b: System{UUID: oneMixed}},
		{name: "another UUID", a: System{UUID: one}, b: System{UUID: two}, differ: true, conflicts: true},
		{name: "another UUID in the other order", a: System{UUID: two}, b: System{UUID: oneMixed}, differ: true, conflicts: true},
		{name: "another serial number", a: System{Serial: "A1"}, b: System{Serial: "B2"}, differ: true, conflicts: true},
		{name: "the chassis' serial number", a: System{UUID: one, Serial: "BLADE7"}, b: System{UUID: one, Serial: "CHASSIS"}, differ: true},
		{name: "two blades with that of their chassis", a: System{UUID: one, Serial: "CHASSIS"}, b: System{UUID: two, Serial: "CHASSIS"}, differ: true, conflicts: true},
		{name: "the serial number is the BMC's SKU", a: System{Serial: "CN7475158D03F9", SKU: "8HMBXY2"}, b: System{Serial: "8HMBXY2"}, differ: true},
		{name: "a SKU alone", a: System{SKU: "P408"}, b: System{Serial: "A1"}},
		{name: "one says nothing", a: System{UUID: one, Serial: "A1"}, b: System{Serial: "To be filled by O.E.M."}},
		{name: "zeros", a: System{UUID: one}, b: System{UUID: "00000000-0000-0000-0000-000000000000"}},
		{name: "Fs", a: System{UUID: one}, b: System{UUID: "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"}},
		{name: "a vendor's own", a: System{UUID: one}, b: System{UUID: "03000200-0400-0500-0006-000700080009"}},
		{name: "no UUID", a: System{UUID: one}, b: System{UUID: "Not Settable"}},
	} {
		for _, way := range [][2]System{{c.a, c.b}, {c.b, c.a}} {
			if got := way[0].Differs(way[1]); got != c.differ {
				t.Errorf("%s: %v and %v differ: %v, want %v", c.name, way[0], way[1], got, c.differ)
			}
			if got := way[0].Conflicts(way[1]); got != c.conflicts {
				t.Errorf("%s: %v and %v conflict: %v, want %v", c.name, way[0], way[1], got, c.conflicts)
			}
		}
	}
}

func TestPlaceholdersSayNothing(t *testing.T) {
	for _, text := range []string{"", " ", "To be filled by O.E.M.", "Default string", "0123456789", "123456789", "01234567890123456789", "Not Specified", "None", "N/A",
		"0000000000", "00000000-0000", "xxxxxxxx", "System Serial Number", "....", "1", "unknown"} {
		if s := (System{Serial: text, SKU: text}); s.Says() {
			t.Errorf("%q counts as %+v", text, s.Telling())
		}
	}
	for _, text := range []string{"A1", "CZ3418K2NX", "012", "1234567890A", "FAKE-11111111-1111"} {
		if !(System{Serial: text}).Says() {
			t.Errorf("%q says nothing", text)
		}
	}
}
