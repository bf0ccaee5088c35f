package seal

import "testing"

// A program that runs takes up the generations of a key as they come and go, and is told where it cannot.
func TestAdopt(t *testing.T) {
	old, _ := GenerateKey()
	fresh, _ := GenerateKey()
	stranger, _ := GenerateKey()
	ring := NewKeyring("Rack-A", old).With("b", old)
	sealed := fresh.Seal(Label{Of: "n"}, "secret")
	if _, err := ring.Of("rack-a").Open(Label{Of: "n"}, sealed); err == nil {
		t.Fatal("opened with a key that is not there")
	}
	both := fresh.WithOlder(old)
	for _, key := range []*Key{old.WithOlder(fresh), both} { // the new one comes to open first, then to seal
		if err := ring.Adopt(NewKeyring("rack-a", key).With("b", old)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := ring.Of("rack-a").Open(Label{Of: "n"}, sealed); err != nil || got != "secret" {
		t.Errorf("a generation that is new: %q, %v", got, err)
	}
	for what, other := range map[string]*Keyring{
		"of other groups":                   NewKeyring("rack-a", both),
		"that have no generation in common": NewKeyring("rack-a", stranger).With("b", old),
		"of which one has none in common":   NewKeyring("rack-a", both).With("b", stranger),
	} {
		if err := ring.Adopt(other); err == nil {
			t.Errorf("keys %s are taken up", what)
		}
	}
	if got, err := ring.Of("rack-a").Open(Label{Of: "n"}, sealed); err != nil || got != "secret" {
		t.Errorf("after what was refused: %q, %v", got, err)
	}
	if err := ring.Adopt(NewKeyring("rack-a", fresh).With("b", old)); err != nil {
		t.Errorf("the oldest generation is not dropped: %v", err)
	}
	if _, err := ring.Of("rack-a").Open(Label{Of: "n"}, old.Seal(Label{Of: "n"}, "x")); err == nil {
		t.Error("a generation that was dropped still opens")
	}
}
