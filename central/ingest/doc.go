// Package ingest applies the events of the sites to central's database: what the
// racks observed becomes the nodes' observation, history and inventory, and works
// that ended are closed.
//
// It may import protocol, central/store, central/allocation, central/inspection and
// central/metrics. Invariants:
//   - An event is acknowledged only after the transaction that applied it has been
//     committed, so nothing is lost; and it is applied at most once, because what is
//     not newer than the node's observation is dropped and counted.
//   - No event is acknowledged and gone because of the database. One that is proven to be
//     refused for its content is set aside, where operators see it and can apply it again;
//     all others wait, however long the database's trouble lasts (setaside.go).
//   - Events are applied in the order in which the site stored them: no replica
//     applies one before all that come before it have been applied, by itself or by
//     another (feed). One replica at a time reads a site's events, which spares the
//     WAN; should two overlap, what the second applies is dropped, because the order of
//     generations, epochs and sequence numbers tells, and of events that are part of no
//     work their place in the site's stream, which a node remembers.
//   - An event of older work, an older generation or an older epoch changes nothing. What a rack
//     found (inventory, hardware) for a work whose flow the open work goes on with counts
//     until that one, or a later one, has been heard of (earlier).
//   - Ingest writes intent in two cases, each the outcome of something that an
//     operator asked for: a tear-down forgets the instance and its allocation, an
//     inspection changes what its hooks and rules say (judge).
//
// Its failpoints: ingest.apply, ingest.applied and ingest.acknowledged, with the site's
// name as detail.
package ingest
