package store

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// statementsFile is what the nested module crdbgrammar parses. It is a file, so that
// CockroachDB's parser and its 50 dependencies stay out of this module.
const statementsFile = "crdbgrammar/statements.sql"

func TestStatementsFileIsCurrent(t *testing.T) {
	all := AllStatements()
	slices.Sort(all)
	want := strings.Join(slices.Compact(all), ";\n\n") + ";\n"
	if os.Getenv("UPDATE_STATEMENTS") != "" {
		if err := os.WriteFile(statementsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(statementsFile)
	if err != nil || string(got) != want {
		t.Errorf("%s is not current (error %v): run UPDATE_STATEMENTS=1 go test ./central/store", statementsFile, err)
	}
}

// A statement that is sent without being listed escapes the grammar test: no string
// that begins like one may stand outside of register and the builders.
func TestNoStatementEscapes(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	sent := regexp.MustCompile(`\.(exec|query)\(ctx, *"`)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if at := sent.FindIndex(text); at != nil {
			t.Errorf("%s sends a literal: register it", f.Name())
		}
	}
}

// Intent and observation never share a column, and no column has two owners.
func TestEveryColumnHasOneWriter(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range nodeColumns {
		if seen[c.name] {
			t.Errorf("column %s is listed twice", c.name)
		}
		seen[c.name] = true
	}
	for stmt, never := range map[string][]class{writeIntent.whole: {hot, observed, effective}, writeObserved.whole: {intent, effective}, saveObserved(1): {intent, observed, effective}} {
		_, sets, _ := strings.Cut(stmt, " SET ")
		for _, c := range pick(nodeColumns, never...) {
			if regexp.MustCompile(`\b` + c.name + ` = `).MatchString(sets) {
				t.Errorf("%s writes %s", stmt[:40], c.name)
			}
		}
	}
	if len(pick(nodeColumns, hot)) == 0 || !strings.Contains(migrations[0].sql, "GENERATED") {
		t.Error("the test looks at nothing")
	}
}

func TestMigrationsAreOneStatementEach(t *testing.T) {
	for _, m := range migrations {
		if strings.Contains(m.sql, ";") {
			t.Errorf("migration %d has more than one statement", m.version)
		}
		for _, word := range []string{"CASCADE", "SEQUENCE", "SERIAL", "REFERENCES", "DROP "} {
			if strings.Contains(strings.ToUpper(m.sql), word) {
				t.Errorf("migration %d says %s", m.version, word)
			}
		}
	}
}

// A stamp must change with whatever it stands for: each write of a node moves its
// revision on, and what is shown of a piece of work never changes while it is open.
func TestStampsMissNothing(t *testing.T) {
	moves := regexp.MustCompile(`\bUPDATE nodes SET revision = (nodes\.)?revision \+ 1\b`)
	ends := regexp.MustCompile(`\bUPDATE works SET state = ('ended'|\$2), ended_at = \S+, error = \S+ (FROM v )?WHERE `)
	nodes, works := 0, 0
	for _, stmt := range AllStatements() {
		if strings.Contains(stmt, "UPDATE nodes ") {
			nodes++
			if !moves.MatchString(stmt) {
				t.Errorf("%s writes nodes and leaves their revision", stmt)
			}
		}
		if strings.Contains(stmt, "UPDATE works ") {
			works++
			if !ends.MatchString(stmt) {
				t.Errorf("%s changes works otherwise than to end them", stmt)
			}
		}
	}
	if nodes < 4 || works < 2 {
		t.Errorf("looked at %d writes of nodes and %d of works: too few", nodes, works)
	}
}
