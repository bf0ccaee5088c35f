package ingest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// withPassword seals a password, and one that is to take its place, into a node's driver_info.
func (f *fixture) withPassword(n *store.Node, password, next string) {
	f.Helper()
	err := f.store.Update(f.Context(), func(ctx context.Context, tx *store.Tx) error {
		row, err := tx.Node(ctx, n.UUID)
		if err != nil {
			return err
		}
		row.DriverInfo = f.key.SealFields(seal.Label{Kind: seal.DriverInfo, Of: n.UUID},
			map[string]any{"ilo_address": "192.0.2.1", "ilo_username": "admin", "ilo_password": password, "ilo_change_password": next})
		return tx.UpdateNode(ctx, row)
	})
	if err != nil {
		f.Fatal(err)
	}
}

// row reads a node, with its driver_info opened.
func (f *fixture) row(n *store.Node) (row *store.Node, open map[string]any) {
	f.Helper()
	row = f.node(n.UUID)
	open, err := f.key.OpenFields(seal.Label{Kind: seal.DriverInfo, Of: n.UUID}, row.DriverInfo)
	if err != nil {
		f.Fatal(err)
	}
	return row, open
}

// told is the event of a rack that has replaced a secret.
func (f *fixture) told(w *work.Document, seq uint64, field string, r work.Replacement) work.Event {
	f.Helper()
	key, err := f.key.ForGroup("")
	if err != nil {
		f.Fatal(err)
	}
	s, err := work.SealSecret(key, w.Node, field, w.Root(), r)
	if err != nil {
		f.Fatal(err)
	}
	s.Sure = true
	return work.Event{ID: work.EventID(w.ID, 1, seq), Kind: work.SecretsReplaced, Node: w.Node, Rackd: "r", Time: time.Now().UTC(), Work: w.ID, Verb: w.Verb,
		Generation: w.Generation, Epoch: 1, Seq: seq, State: provision.Deploying, Target: provision.Active, Secrets: []work.Secret{s}}
}

// A secret that a rack has replaced stands in driver_info, sealed, and the site is to see it. The same again changes nothing.
func TestSecretsAreReplaced(t *testing.T) {
	f := newFixture(t)
	n, row := f.deploy("one")
	w := row.Document()
	f.withPassword(n, "0ld-pass", "n3w-pass")
	before, _ := f.row(n)
	f.follow()
	f.publish(f.told(&w, 1, "ilo_password", work.Replacement{Was: "0ld-pass", New: "n3w-pass", Clears: []string{"ilo_change_password", "ilo_address"}}))
	f.drained()
	after, open := f.row(n)
	if open["ilo_password"] != "n3w-pass" || open["ilo_change_password"] != nil || open["ilo_address"] != "192.0.2.1" {
		t.Errorf("driver_info is %v", open)
	}
	if sealed, _ := after.DriverInfo["ilo_password"].(string); !seal.Sealed(sealed) {
		t.Errorf("it lies there as %q", sealed)
	}
	if after.Revision <= before.Revision || after.RackRevision <= before.RackRevision {
		t.Errorf("revision %d after %d, of what racks see %d after %d", after.Revision, before.Revision, after.RackRevision, before.RackRevision)
	}
	f.publish(f.told(&w, 2, "ilo_password", work.Replacement{Was: "0ld-pass", New: "n3w-pass"}))
	f.drained()
	if again, open := f.row(n); open["ilo_password"] != "n3w-pass" || again.RackRevision != after.RackRevision {
		t.Errorf("told again: %v, revision %d after %d", open["ilo_password"], again.RackRevision, after.RackRevision)
	}
}

// A node that asked for the password that it has asks for it no longer, and the history does not say that the password has changed.
func TestAWishForTheSameSecretGoes(t *testing.T) {
	f := newFixture(t)
	n, row := f.deploy("one")
	w := row.Document()
	f.withPassword(n, "0ld-pass", "0ld-pass")
	before, _ := f.row(n)
	f.follow()
	f.publish(f.told(&w, 1, "ilo_password", work.Replacement{Was: "0ld-pass", New: "0ld-pass", Clears: []string{"ilo_change_password"}}))
	f.drained()
	after, open := f.row(n)
	if open["ilo_password"] != "0ld-pass" || open["ilo_change_password"] != nil || len(open) != 3 || after.RackRevision <= before.RackRevision {
		t.Errorf("driver_info is %v, of what racks see %d after %d", open, after.RackRevision, before.RackRevision)
	}
	lines, err := f.store.History(t.Context(), store.HistoryQuery{Node: n.UUID})
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, l := range lines {
		text += l.Event + "\n"
	}
	if !strings.Contains(text, "no longer asks for a new ilo_password") || strings.Contains(text, "was changed") {
		t.Errorf("the history says %q", text)
	}
}

// What is not the replacement of what is there is not written: what a request wrote meanwhile, another field, another node's secret, one
// of another work, one without work.
func TestSecretsThatAreNotReplaced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		field string
		r     work.Replacement
		spoil func(e *work.Event)
		says  string
	}{
		"changed meanwhile": {"ilo_password", work.Replacement{Was: "0lder-pass", New: "n3w-pass"}, nil, "a request has written another one"},
		"no secret":         {"ilo_address", work.Replacement{Was: "192.0.2.1", New: "198.51.100.1"}, nil, "has no such secret"},
		"not there":         {"ilo_other_password", work.Replacement{New: "n3w-pass"}, nil, "has no such secret"},
		"empty":             {"ilo_password", work.Replacement{Was: "0ld-pass"}, nil, "has no such secret"},
		"another field":     {"ilo_other_password", work.Replacement{Was: "0ld-pass", New: "n3w-pass"}, func(e *work.Event) { e.Secrets[0].Field = "ilo_password" }, "set aside"},
		"another work":      {"ilo_password", work.Replacement{Was: "0ld-pass", New: "n3w-pass"}, func(e *work.Event) { e.Secrets[0].Of = "other" }, "set aside"},
		"no work":           {"ilo_password", work.Replacement{Was: "0ld-pass", New: "n3w-pass"}, func(e *work.Event) { e.Work, e.State = "", "" }, ""},
		"closed work":       {"ilo_password", work.Replacement{Was: "0ld-pass", New: "n3w-pass"}, func(e *work.Event) { e.Work = "an earlier one" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			n, row := f.deploy("one")
			w := row.Document()
			f.withPassword(n, "0ld-pass", "n3w-pass")
			f.follow()
			e := f.told(&w, 1, c.field, c.r)
			if c.spoil != nil {
				c.spoil(&e)
			}
			f.publish(e)
			f.drained()
			if _, open := f.row(n); open["ilo_password"] != "0ld-pass" || open["ilo_change_password"] != "n3w-pass" || open["ilo_address"] != "192.0.2.1" || len(open) != 4 {
				t.Errorf("driver_info is %v", open)
			}
			lines, err := f.store.History(t.Context(), store.HistoryQuery{Node: n.UUID})
			if err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, l := range lines {
				said = append(said, l.Event)
			}
			text := strings.Join(said, "\n")
			if !strings.Contains(text, c.says) || strings.Contains(text, "0ld-pass") || strings.Contains(text, "n3w-pass") {
				t.Errorf("the history says %q, want %q", text, c.says)
			}
		})
	}
}
