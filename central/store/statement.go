package store

import (
	"slices"
	"strconv"
	"strings"
)

// registered holds every statement with a fixed text.
var registered []string

// register adds a statement to AllStatements and returns it.
func register(stmt string) string {
	registered = append(registered, stmt)
	return stmt
}

// builders make the statements whose text depends on a number of rows or on
// filters, for AllStatements.
var builders []func() []string

// AllStatements returns every statement of the project that every engine is sent,
// migrations included; those
// that are built, in each form that differs by more than a count. The grammar
// test parses them.
func AllStatements() []string {
	all := slices.Clone(registered)
	for _, b := range builders {
		all = append(all, b()...)
	}
	for _, m := range migrations {
		if m.engine == "" {
			all = append(all, m.sql)
		}
	}
	return all
}

// placeholders returns "$from, …" for n arguments.
func placeholders(from, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(from + i))
	}
	return b.String()
}

// valueRows returns "($1, $2), ($3, $4)" for rows of n columns. With casts, the
// first row gives each column its type, which a bare VALUES list lacks.
func valueRows(rows, n int, casts []string) string {
	var b strings.Builder
	for r := range rows {
		if r > 0 {
			b.WriteString(", ")
		}
		if r > 0 || casts == nil {
			b.WriteString("(" + placeholders(r*n+1, n) + ")")
			continue
		}
		for i, c := range casts {
			b.WriteString([]string{"(", ", "}[min(i, 1)] + "CAST($" + strconv.Itoa(i+1) + " AS " + c + ")")
		}
		b.WriteByte(')')
	}
	return b.String()
}

// roundUp rounds a number of list arguments up to a power of two, so that a
// database sees few different texts; callers repeat the last value.
func roundUp(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}

// inList returns the placeholders and arguments of an IN list, padded.
func inList(from int, values []string) (string, []any) {
	n := roundUp(len(values))
	args := make([]any, n)
	for i := range args {
		args[i] = values[min(i, len(values)-1)]
	}
	return placeholders(from, n), args
}

// filter collects the conditions of a WHERE clause.
type filter struct {
	conds []string
	args  []any
}

// add adds a condition in which each ? stands for the next of args.
func (f *filter) add(cond string, args ...any) {
	var b strings.Builder
	for _, c := range cond {
		if c != '?' {
			b.WriteRune(c)
			continue
		}
		f.args = append(f.args, args[0])
		args = args[1:]
		b.WriteString("$" + strconv.Itoa(len(f.args)))
	}
	f.conds = append(f.conds, b.String())
}

func (f *filter) equal(column, value string) {
	if value != "" {
		f.add(column+" = ?", value)
	}
}

// set is equal for a column whose index leaves out empty values, which is said again
// for engines that look at the text alone.
func (f *filter) set(column, value string) {
	if value != "" {
		f.add(column+" = ? AND "+column+" <> ''", value)
	}
}

func (f *filter) in(column string, values []string) {
	if len(values) > 0 {
		list, args := inList(len(f.args)+1, values)
		f.args = append(f.args, args...)
		f.conds = append(f.conds, column+" IN ("+list+")")
	}
}

// inShards admits nodes in one of shards. What is in none has an empty shard, which none of
// them can be.
func (f *filter) inShards(shards []string) {
	f.in("n.shard", shards)
	if slices.Contains(shards, "") {
		f.conds = append(f.conds, "n.shard <> ''")
	}
}

func (f *filter) contains(column, part string) {
	pattern := "_%" // something
	if part != "" {
		pattern = "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(strings.ToLower(part)) + "%"
	}
	f.add("lower("+column+`) LIKE ? ESCAPE '\'`, pattern)
}

func (f *filter) where() string {
	if len(f.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.conds, " AND ")
}

// visibleTo says which rows of a table a project may see, @ being the table's alias. Of a
// table that is not here a project sees nothing.
var visibleTo = map[string]string{
	"nodes":             "(@.owner = ? OR @.lessee = ?)",
	"ports":             "@.node" + ofItsNodes,
	"portgroups":        "@.node" + ofItsNodes,
	"volume_connectors": "@.node" + ofItsNodes,
	"volume_targets":    "@.node" + ofItsNodes,
	"allocations":       "@.owner = ? AND @.owner <> ''",
	"runbooks":          "(@.owner = ? AND @.owner <> '' OR @.public)",
}

const ofItsNodes = " IN (SELECT v.uuid FROM nodes v WHERE v.owner = ? OR v.lessee = ?)"

// visible keeps rows out that a project may not see; empty: all are seen.
func (f *filter) visible(project, table, alias string) {
	if project == "" {
		return
	}
	cond := visibleTo[table]
	if cond == "" {
		cond = "1 = 0"
	}
	args := slices.Repeat([]any{project}, strings.Count(cond, "?"))
	f.add(strings.ReplaceAll(cond, "@", alias), args...)
}

// page adds the keyset condition and returns ORDER BY and LIMIT. column is one of
// the table's, never text from outside.
func (f *filter) page(p Page, table, alias, column string) string {
	f.visible(p.Project, table, alias)
	if p.Marker != "" {
		keys, cmp := sortKeys(table, column), ">"
		if p.Desc {
			cmp = "<"
		}
		f.add("("+prefixed(alias+".", keys, "")+") "+cmp+" (SELECT "+prefixed("m.", keys, "")+" FROM "+table+" m WHERE m.uuid = ?)", p.Marker)
	}
	return f.where() + p.order(table, alias+".", column)
}

// order returns ORDER BY and LIMIT; prefix is that of the columns.
func (p Page) order(table, prefix, column string) string {
	if p.Limit <= 0 {
		p.Limit = 1000
	}
	dir := " ASC"
	if p.Desc {
		dir = " DESC"
	}
	return " ORDER BY " + prefixed(prefix, sortKeys(table, column), dir) + " LIMIT " + strconv.Itoa(p.Limit)
}

// sortKeys are the columns of an order by column: those of an index, where there is one.
func sortKeys(table, column string) []string {
	switch {
	case column == "uuid":
		return []string{"uuid"}
	case table == "nodes" && column != "created_at":
		return []string{column, "created_at", "uuid"}
	}
	return []string{column, "uuid"}
}

// prefixed returns "alias.a DESC, alias.b DESC" for the prefix "alias.".
func prefixed(prefix string, columns []string, suffix string) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = prefix + c + suffix
	}
	return strings.Join(list, ", ")
}
