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
	for text, want := range map[string]string{"": "no key of conductor group", "rack-b " + b.Text(): "no key of", "rack-b x": "line 1: "} {
		if _, err := ParseKeyring(text, "rack-a"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestKeyringText(t *testing.T) {
	a, _ := GenerateKey()
	old, _ := GenerateKey()
	b, _ := GenerateKey()
	c, _ := GenerateKey()
	text := NewKeyring("rack-a", a.WithOlder(old)).With("Rack-B", b).With("", c).Text("rack-a")
	r, err := ParseKeyring(text, "Rack-A")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for group, want := range map[string]*Key{"rack-a": a.WithOlder(old), "rack-b": b, "": c} {
		if got := r.Of(group); got == nil || got.Text() != want.Text() {
			t.Errorf("group %q came back as %v", group, got)
		}
	}
	if got := r.Groups(); len(got) != 3 {
		t.Errorf("groups %q", got)
	}
}
