package seal

import (
	"strings"
	"testing"
)

func TestKeyring(t *testing.T) {
	a, _ := GenerateKey()
	b, _ := GenerateKey()
	r, err := ParseKeyring("# keys\n"+a.Text()+"\n\nRack-B "+b.Text()+"\n", "Rack-A")
	if err != nil || r.Of("rack-a").Text() != a.Text() || r.Of("rack-b").Text() != b.Text() || r.Of("rack-c") != nil {
		t.Errorf("keyring %v, %v", r, err)
	}
	if more := NewKeyring("rack-a", a).With("rack-b", b); more.Of("RACK-B").Text() != b.Text() || more.Of("rack-a").Text() != a.Text() {
		t.Error("With lost a key")
	}
	for text, want := range map[string]string{"": "no key of conductor group", "rack-b " + b.Text(): "no key of", a.Text() + "\n" + b.Text(): "line 2: a second key",
		"rack-b x": "line 1: "} {
		if _, err := ParseKeyring(text, "rack-a"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
