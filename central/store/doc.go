// Package store is central's memory: nodes, ports, traits, works, history,
// inventories and the outbox, in SQLite, PostgreSQL or CockroachDB.
//
// It may import protocol only. It knows no keys: driver_info comes and goes with
// its secrets sealed. Invariants:
//   - Intent and observation never share a column. What an operator asked for is
//     written by the API's transaction, what a rack reported by ingest's; where
//     both bear on one fact (the provision state, the target power state, the last
//     error, maintenance) a generated column says which of the two holds.
//   - Writes happen inside Update only, in a serializable transaction that is run
//     again as a whole when the database asks for it.
//   - Nobody is told of a write, or reads it outside of Update, before it is on the disk.
//   - Whatever a rack must learn goes into the outbox in the transaction that made
//     it true. What its documents do not show does not (Tell, unseenColumns).
//   - One set of statements serves every engine; each is a constant or comes from a
//     builder over fixed words, and AllStatements lists them for the grammar test.
//
// Its failpoints, which every transaction passes: store.commit and store.committed, with
// the verb of the work that the transaction accepts, or nothing, as detail.
package store
