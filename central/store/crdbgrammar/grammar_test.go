package crdbgrammar

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/parser"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
)

// functions that all engines have and that mean the same on each.
var functions = map[string]bool{"string_agg": true, "lower": true, "count": true, "min": true, "version": true,
	"like_escape": true} // how the parser writes LIKE … ESCAPE

func TestEveryStatementIsCockroachDBs(t *testing.T) {
	text, err := os.ReadFile("statements.sql")
	if err != nil {
		t.Fatal(err)
	}
	statements, err := parser.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(statements) < 50 {
		t.Fatalf("only %d statements", len(statements))
	}
	kinds := map[string]int{}
	for _, s := range statements {
		kinds[s.AST.StatementTag()]++
		for _, why := range inspect(s.AST) {
			t.Errorf("%s\n%s", why, s.SQL)
		}
	}
	t.Logf("%d statements: %v", len(statements), kinds)
}

// The inspection finds what it is there for.
func TestInspectionFindsWhatIsBanned(t *testing.T) {
	for _, bad := range []string{
		"SELECT pg_advisory_lock(1)",
		"SELECT now()",
		"INSERT INTO a VALUES (gen_random_uuid())",
		"UPDATE a SET b = nextval('s') WHERE c = $1",
		"CREATE TABLE a (b INT PRIMARY KEY REFERENCES c (d) ON DELETE CASCADE)",
		"CREATE TABLE a (b SERIAL PRIMARY KEY)",
		"CREATE TABLE a (b INT)",
		"CREATE SEQUENCE s",
		"CREATE EXTENSION x",
		"DELETE FROM a",
		"UPDATE a SET b = 1",
		"SELECT a FROM b LIMIT 1 OFFSET 100",
		"DROP TABLE a",
		"ALTER TABLE a DROP COLUMN b",
		"ALTER TABLE a ADD COLUMN b INT",
		"ALTER TABLE a ADD COLUMN b INT NOT NULL",
		"ALTER TABLE a ADD COLUMN b INT NOT NULL DEFAULT 1 REFERENCES c (d)",
		"ALTER TABLE a ADD COLUMN b TEXT NOT NULL DEFAULT '', DROP COLUMN c",
		"WITH v AS (SELECT now()) SELECT * FROM v",
		"UPDATE a SET b = 1 FROM (SELECT now()) v WHERE a.c = v.c",
		"CREATE TABLE a (b INT PRIMARY KEY, c INT AS (random()) STORED)",
		"INSERT INTO a (b) VALUES (1) ON CONFLICT (b) DO UPDATE SET b = random()",
	} {
		parsed, err := parser.ParseOne(bad)
		if err != nil {
			t.Errorf("%s: %v", bad, err)
			continue
		}
		if len(inspect(parsed.AST)) == 0 {
			t.Errorf("accepted: %s", bad)
		}
	}
}

// inspect returns what speaks against a statement.
func inspect(s tree.Statement) (problems []string) {
	say := func(why string) { problems = append(problems, why) }
	switch s := s.(type) {
	case *tree.Select, *tree.Insert:
	case *tree.CreateIndex:
	case *tree.Update:
		if s.Where == nil {
			say("writes every row")
		}
	case *tree.Delete:
		if s.Where == nil {
			say("deletes every row")
		}
	case *tree.CreateTable:
		table(s, say)
	case *tree.AlterTable:
		alter(s, say)
	default:
		say("statement " + s.StatementTag() + " is not on the list")
	}
	walk(reflect.ValueOf(s), map[uintptr]bool{}, func(node any) {
		switch n := node.(type) {
		case *tree.FuncExpr:
			if f := strings.ToLower(n.Func.String()); !functions[f] {
				say("function " + f + " is not on the list")
			}
		case *tree.Limit:
			if n.Offset != nil {
				say("OFFSET reads what it throws away: page by key")
			}
		}
	})
	return problems
}

func table(s *tree.CreateTable, say func(string)) {
	primary := false
	for _, def := range s.Defs {
		switch d := def.(type) {
		case *tree.ColumnTableDef:
			primary = primary || d.PrimaryKey.IsPrimaryKey
			if d.References.Table != nil {
				say("column " + string(d.Name) + " is a foreign key")
			}
			if d.IsSerial {
				say("column " + string(d.Name) + " is a sequence")
			}
		case *tree.UniqueConstraintTableDef:
			primary = primary || d.PrimaryKey
		case *tree.ForeignKeyConstraintTableDef:
			say("foreign key")
		}
	}
	if !primary {
		say("no primary key")
	}
}

// alter allows what an older replica, which does not know of it, is not hurt by: a column
// that has a value when nobody gives one.
func alter(s *tree.AlterTable, say func(string)) {
	for _, cmd := range s.Cmds {
		add, ok := cmd.(*tree.AlterTableAddColumn)
		switch {
		case !ok:
			say("ALTER TABLE does more than to add a column")
		case add.ColumnDef.Nullable.Nullability != tree.NotNull || add.ColumnDef.DefaultExpr.Expr == nil:
			say("column " + string(add.ColumnDef.Name) + " is not NOT NULL with a default")
		case add.ColumnDef.References.Table != nil || add.ColumnDef.IsSerial || add.ColumnDef.Computed.Computed:
			say("column " + string(add.ColumnDef.Name) + " is more than a value")
		}
	}
}

// walk calls f for every pointer in a tree. The parser's own visitors leave out
// parts of statements (UPDATE … FROM, ON CONFLICT, computed columns).
func walk(v reflect.Value, seen map[uintptr]bool, f func(node any)) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), seen, f)
		}
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return
		}
		seen[v.Pointer()] = true
		if v.CanInterface() {
			f(v.Interface())
		}
		walk(v.Elem(), seen, f)
	case reflect.Struct:
		for i := range v.NumField() {
			walk(v.Field(i), seen, f)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walk(v.Index(i), seen, f)
		}
	}
}
