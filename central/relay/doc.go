// Package relay carries what is committed in central's database to the sites: it
// reads the outbox and makes each node's NODES and WORK keys, and its config
// drives, fit the rows.
//
// It may import protocol, central/store and central/metrics. Invariants:
//   - An entry is deleted only after its site has confirmed what it asked for, and holds the work
//     that it sends out, so everything committed is published, at least once.
//   - What a document does not show has no entry when it is written (store.Tx.Tell): so the
//     revision of a document may be older than the row's.
//   - What this replica commits it is handed in memory; the rows of the outbox are
//     read only for what nobody was handed: entries of a replica that has gone, and
//     those that failed.
//   - An entry about a node says only that the node is dirty: the documents are
//     rendered from what the rows hold when the relay gets to it, also where it was handed
//     the node and has only compared the two. Any number of replicas may
//     do so at once, in any order: a NODES document never replaces one of a higher
//     revision. Keys are read before the rows, and every write is compare-and-set, so a
//     replica that stood still in between does not bring back what has ended.
//   - Only of a node that this replica has created a moment ago neither keys nor row are read: it is
//     written as it was created, if its key never held anything. Who deletes a node, or moves it to another
//     group, leaves a marker in its key, also where there was nothing (decision 49).
//   - A work is sent out by its own entry, by whoever has claimed it in the database before, or
//     can see that nothing came of the claim, and after that only by restore: what the
//     site has lost comes back when every rackd has noticed the loss or lost its lease,
//     and all that was reported is in the rows, under an epoch far above any that was,
//     which the rows know first: whoever still holds the lost document has lost the node.
//   - What an idle site costs the WAN does not grow with its nodes: every Look the
//     relay asks how the streams of the two buckets are, which shows when they are
//     purged, made anew or back from an older copy; how they were the database
//     remembers for the next process. Only then, when the site is opened
//     for the first time, and every Reconcile are all keys compared with the rows.
//   - NODES is written before WORK is touched: when a work's key is gone, the node's
//     document shows how it ended.
//
// Its failpoints: relay.publish, relay.half, relay.claimed, relay.published, relay.forget and
// relay.forgotten, with the site's name as detail.
package relay
