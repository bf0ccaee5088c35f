package work

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/seal"
)

func TestSecretsBelongToNodeFieldAndWork(t *testing.T) {
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	r := Replacement{Was: "0ld-pass", New: "n3w-pass", Clears: []string{"ilo_change_password"}}
	s, err := SealSecret(key, "n", "ilo_password", "w", r)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := json.Marshal(s); strings.Contains(string(text), r.New) || strings.Contains(string(text), r.Was) {
		t.Errorf("it is written as %s", text)
	}
	if got, err := s.Open(key, "n"); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("%+v, %v", got, err)
	}
	other, _ := seal.GenerateKey()
	for name, open := range map[string]func(Secret) error{
		"another node":  func(s Secret) error { _, err := s.Open(key, "m"); return err },
		"another key":   func(s Secret) error { _, err := s.Open(other, "n"); return err },
		"another field": func(s Secret) error { s.Field = "ilo_other_password"; _, err := s.Open(key, "n"); return err },
		"another work":  func(s Secret) error { s.Of = "v"; _, err := s.Open(key, "n"); return err },
	} {
		if open(s) == nil {
			t.Errorf("it opens for %s", name)
		}
	}
}

// Whatever takes the place of work that has replaced a secret, or may have, knows of it.
func TestSecretsAreInherited(t *testing.T) {
	old := Document{ID: "w", Node: "n", Verb: Deploy, Checkpoint: Checkpoint{Step: "management.x", Secrets: []Secret{{Field: "ilo_password", Sealed: "s", Of: "w"}}}}
	for _, next := range []Document{{ID: "v", Verb: Delete}, {ID: "v", Verb: Abort}, {ID: "v", Verb: Abort, Args: Args{Continues: "w"}}, {ID: "v", Verb: Deploy, Args: Args{Continues: "w"}}} {
		next.Inherit(&old)
		if !reflect.DeepEqual(next.Checkpoint.Secrets, old.Checkpoint.Secrets) {
			t.Errorf("%s (continues %q): %+v", next.Verb, next.Args.Continues, next.Checkpoint.Secrets)
		}
	}
}
