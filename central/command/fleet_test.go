package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/enrol"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/seal"
)

// fleet is a database with a rackd that belongs, one that was put out and one that has not
// renewed, and with tokens: one open, one revoked, one that was not used in time.
func fleet(t *testing.T) (database, join.Token) {
	t.Helper()
	d := database{"sqlite:" + filepath.Join(t.TempDir(), "central.db")}
	db, err := store.Open(t.Context(), d.Database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for id, name := range map[string]string{"1": "r1", "2": "r2", "3": "r3"} {
		m := &store.Member{ID: id, Scope: join.Scope{Role: join.Rackd, Site: "par1", Name: name, Group: "rack-a"}, JoinedAt: now, ExpiresAt: now.Add(time.Hour)}
		switch name {
		case "r2":
			m.EndedAt = now
		case "r3":
			m.ExpiresAt = now.Add(-time.Hour)
		}
		if err := db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.InsertMember(ctx, m) }); err != nil {
			t.Fatal(err)
		}
	}
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	var late time.Duration
	a, err := enrol.Open(t.Context(), db, key, func() time.Time { return now.Add(-late) })
	if err != nil {
		t.Fatal(err)
	}
	token := func(name string) join.Token {
		tokens, err := a.NewTokens(t.Context(), join.Central{URL: "https://central:6387"}, time.Hour, join.Scope{Role: join.Rackd, Site: "par1", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return tokens[0]
	}
	open := token("r4")
	if err := a.RevokeToken(t.Context(), token("r5").ID); err != nil {
		t.Fatal(err)
	}
	late = 2 * time.Hour
	token("r6")
	return d, open
}

func TestLists(t *testing.T) {
	d, open := fleet(t)
	for _, c := range []struct {
		list interface {
			Run(context.Context, io.Writer) error
		}
		want map[string]string // state by name
	}{
		{&listMembers{listing{d, false, true}}, map[string]string{"r1": "member", "r3": "expired"}},
		{&listMembers{listing{d, true, true}}, map[string]string{"r1": "member", "r2": "ended", "r3": "expired"}},
		{&listTokens{listing{d, false, true}}, map[string]string{"r4": "open"}},
		{&listTokens{listing{d, true, true}}, map[string]string{"r4": "open", "r5": "revoked", "r6": "expired"}},
	} {
		var out bytes.Buffer
		if err := c.list.Run(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), open.String()) || strings.Contains(out.String(), "secret") || strings.Contains(out.String(), "hash") {
			t.Errorf("a list tells a token's secret:\n%s", out.String())
		}
		got := map[string]string{}
		for lines := json.NewDecoder(&out); lines.More(); {
			var row shown
			if err := lines.Decode(&row); err != nil {
				t.Fatal(err)
			}
			if row.ID == "" || row.Since.IsZero() || row.ExpiresAt.IsZero() || row.Scope.Site != "par1" {
				t.Errorf("row %+v", row)
			}
			got[row.Scope.Name] = row.State
		}
		if len(got) != len(c.want) {
			t.Errorf("got %v, want %v", got, c.want)
		}
		for name, state := range c.want {
			if got[name] != state {
				t.Errorf("%s: %q, want %q", name, got[name], state)
			}
		}
	}
	var table bytes.Buffer
	if err := (&listMembers{listing{d, false, false}}).Run(t.Context(), &table); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(table.String()), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "ROLE ") || !strings.Contains(lines[1], "r1 ") || !strings.Contains(lines[2], "expired") {
		t.Errorf("table:\n%s", table.String())
	}
}

// A mistyped address gets no fleet of its own, in which tokens would be made that no central
// knows.
func TestDatabasesThatAreNone(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "typo.db")
	empty := filepath.Join(t.TempDir(), "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(keyVariable, generated(t))
	for path, want := range map[string]string{missing: "no such file", empty: "central migrate"} {
		d := database{"sqlite:" + path}
		rotate, revoke := rotateKey{database: d}, revokeToken{authority: authority{database: d}, ID: "1"}
		for name, run := range map[string]func() error{
			"list":   func() error { return (&listMembers{listing{d, false, false}}).Run(t.Context(), io.Discard) },
			"rotate": func() error { return rotate.Run(t.Context(), slog.New(slog.DiscardHandler)) },
			"revoke": func() error { return revoke.Run(t.Context(), slog.New(slog.DiscardHandler)) },
		} {
			if err := run(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s in %s: error %v", name, filepath.Base(path), err)
			}
		}
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the database that is not there was made: %v", err)
	}
}

// generated is the text of a new key of the fleet.
func generated(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	if err := (keyGenerate{}).Run(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
