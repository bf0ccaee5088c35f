package seal

import (
	"encoding/base64"
	"errors"
	"testing"
)

// A sealed value opens for what it was sealed for: not at another node, in another field, as another
// kind of value, or for another work. A party that may write to the bus can copy it there.
func TestSealedValuesDoNotMove(t *testing.T) {
	k, _ := GenerateKey()
	at := Label{Kind: SentDrive, Of: "node", Field: "field", Work: "work"}
	sealed := k.Seal(at, "hunter2")
	if got, err := k.Open(at, sealed); err != nil || got != "hunter2" {
		t.Fatalf("opens as %q, %v", got, err)
	}
	for name, l := range map[string]Label{
		"kind":           {Kind: StepArgument, Of: "node", Field: "field", Work: "work"},
		"node":           {Kind: SentDrive, Of: "other", Field: "field", Work: "work"},
		"field":          {Kind: SentDrive, Of: "node", Field: "other", Work: "work"},
		"work":           {Kind: SentDrive, Of: "node", Field: "field", Work: "other"},
		"no work":        {Kind: SentDrive, Of: "node", Field: "field"},
		"another border": {Kind: SentDrive, Of: "nodef", Field: "ield", Work: "work"},
	} {
		if got, err := k.Open(l, sealed); !errors.Is(err, ErrOpen) {
			t.Errorf("with another %s it opens as %q, %v", name, got, err)
		}
	}
	fields := k.SealFields(of("node"), map[string]any{"redfish_password": "a", "deep": map[string]any{"token": "b"}})
	swapped := map[string]any{"redfish_password": fields["deep"].(map[string]any)["token"]}
	if got, err := k.OpenFields(of("node"), swapped); err == nil {
		t.Errorf("a secret of another field opens: %v", got)
	}
	if got, err := k.OpenFields(Label{Kind: InstanceInfo, Of: "node"}, fields); err == nil {
		t.Errorf("secrets of driver_info open in instance_info: %v", got)
	}
}

// Rows of before labels open, until they are sealed again, and nothing else that was sealed so does.
func TestUnlabelledValuesOpenInTheDatabaseOnly(t *testing.T) {
	k, _ := GenerateKey()
	old := func(of string) string {
		nonce := make([]byte, k.aead.NonceSize())
		return unlabelled + base64.StdEncoding.EncodeToString(k.aead.Seal(nonce, nonce, []byte("hunter2"), []byte(of)))
	}
	for l, sealed := range map[Label]string{of("n"): old("n"), {Kind: StoredDrive, Of: "n"}: old("n"), {Kind: Vault, Of: "root"}: old("vault/root")} {
		if got, err := k.Open(l, sealed); err != nil || got != "hunter2" || !Sealed(sealed) || k.Current(l, sealed) {
			t.Errorf("%+v: %q, %v, current %t", l, got, err, k.Current(l, sealed))
		}
	}
	for l, sealed := range map[Label]string{of("other"): old("n"), {Kind: SentDrive, Of: "n", Work: "w"}: old("n"), {Kind: StepArgument, Of: "n", Work: "w"}: old("n")} {
		if got, err := k.Open(l, sealed); !errors.Is(err, ErrOpen) {
			t.Errorf("%+v opens as %q, %v", l, got, err)
		}
	}
}

func TestCodes(t *testing.T) {
	k, _ := GenerateKey()
	older, _ := GenerateKey()
	code := k.Code("p", []byte("a"), []byte("bc"))
	if !k.CodeFits(code, "p", []byte("a"), []byte("bc")) || !older.WithOlder(k).CodeFits(code, "p", []byte("a"), []byte("bc")) {
		t.Error("a code does not fit what it was made of")
	}
	if k.CodeFits(code, "q", []byte("a"), []byte("bc")) || k.CodeFits(code, "p", []byte("ab"), []byte("c")) || k.CodeFits(nil, "p") ||
		older.CodeFits(code, "p", []byte("a"), []byte("bc")) || older.WithOlder(k).Newest().CodeFits(code, "p", []byte("a"), []byte("bc")) {
		t.Error("a code fits what it was not made of")
	}
}
