package seal

import "testing"

// A program that runs takes up a new generation, and is told where it cannot.
func TestAdopt(t *testing.T) {
	old, _ := GenerateKey()
	fresh, _ := GenerateKey()
	ring := NewKeyring("Rack-A", old).With("b", old)
	sealed := fresh.Seal(Label{Of: "n"}, "secret")
	if _, err := ring.Of("rack-a").Open(Label{Of: "n"}, sealed); err == nil {
		t.Fatal("opened with a key that is not there")
	}
	both := fresh.WithOlder(old)
	if err := ring.Adopt(NewKeyring("rack-a", both).With("b", old)); err != nil {
		t.Fatal(err)
	}
	if got, err := ring.Of("rack-a").Open(Label{Of: "n"}, sealed); err != nil || got != "secret" {
		t.Errorf("a generation that is new: %q, %v", got, err)
	}
	for what, other := range map[string]*Keyring{
		"of other groups":                 NewKeyring("rack-a", both),
		"without the oldest generation":   NewKeyring("rack-a", fresh).With("b", old),
		"with one older than all present": NewKeyring("rack-a", old.WithOlder(fresh)).With("b", old),
	} {
		if err := ring.Adopt(other); err == nil {
			t.Errorf("keys %s are taken up", what)
		}
	}
	if got, err := ring.Of("rack-a").Open(Label{Of: "n"}, sealed); err != nil || got != "secret" {
		t.Errorf("after what was refused: %q, %v", got, err)
	}
}
