package uefivars

import (
	"slices"
	"testing"
)

// FuzzParse reads any headers and any variables as a store. What is read can be
// listed, changed and read again, and no other variable is lost by that.
func FuzzParse(f *testing.F) {
	const variables, room = volumeHeader + storeHeader, 1024
	s, err := Parse(image(2, room))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{}, []byte{})
	raw, err := httpOption("http://10.0.0.1/a").Encode()
	if err != nil {
		f.Fatal(err)
	}
	for _, data := range [][]byte{raw, raw[:40]} {
		if err := s.Set(Variable{Vendor: GlobalVendor, Name: "Boot0001", Attributes: bootAttributes, Data: data}); err != nil {
			f.Fatal(err)
		}
	}
	if err := s.Set(Variable{Vendor: GlobalVendor, Name: "PK", Attributes: keyAttributes, Data: signatureLists(vendor, [][]byte{{1, 2, 3}})}); err != nil {
		f.Fatal(err)
	}
	_, free, err := records(s.image, s.end)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.image[:variables], s.image[variables:free])
	f.Fuzz(func(t *testing.T, headers, area []byte) {
		raw := image(2, room)
		copy(raw[:variables], headers)
		copy(raw[variables:], area)
		s, err := Parse(raw)
		if err != nil {
			return
		}
		readAll(s)
		before := slices.DeleteFunc(s.List(), func(v Variable) bool { // names that are no UTF-16
			_, ok := s.Get(v.Vendor, v.Name)
			return !ok || v.Name == "Fuzz"
		})
		if err := s.Set(Variable{Vendor: vendor, Name: "Fuzz", Attributes: bootAttributes, Data: []byte("value")}); err != nil {
			return
		}
		again, err := Parse(s.Bytes())
		if err != nil {
			t.Fatalf("a store that was changed: %v", err)
		}
		if v, ok := again.Get(vendor, "Fuzz"); !ok || string(v.Data) != "value" {
			t.Fatalf("what was set is %q", v.Data)
		}
		for _, v := range before {
			if _, ok := again.Get(v.Vendor, v.Name); !ok {
				t.Fatalf("%s was lost", v.Name)
			}
		}
	})
}

func readAll(s *Store) {
	_, _ = s.BootOptions()
	_, _ = s.BootOrder()
	_, _, _ = s.BootNext()
	_, _, _ = s.ISCSI()
	_, _ = s.Keys()
}

// FuzzLoadOption reads any bytes as a load option: what is read is written the same.
func FuzzLoadOption(f *testing.F) {
	raw, err := httpOption("http://10.0.0.1/a").Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := ParseLoadOption(raw)
		if err != nil {
			return
		}
		_ = o.Path.String()
		if again, err := o.Encode(); err != nil {
			t.Fatal(err)
		} else if o2, err := ParseLoadOption(again); err != nil || !o2.Path.Equal(o.Path) || o2.Description != o.Description {
			t.Fatalf("%v, then %v (%v)", o, o2, err)
		}
	})
}
