// Package crdbgrammar parses every SQL statement of central with CockroachDB's own
// parser. It is a module of its own because of that parser's dependencies.
//
// statements.sql is written by central/store's tests. The parser knows the grammar
// only, so the test also looks at each tree: functions must be on a list of those
// that PostgreSQL, CockroachDB and SQLite share, and what CockroachDB parses but
// does badly, or does otherwise, is banned.
package crdbgrammar
