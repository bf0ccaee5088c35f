// Package storetest proves that a database does what central/store promises, and
// brings the databases to prove it on: a file of SQLite, a temporary PostgreSQL
// cluster, and CockroachDB where COCKROACH_URL or COCKROACH_BINARY names one.
//
// It may import central/store and protocol. It is for tests only.
package storetest
