// Package groupkeys knows which generations of each conductor group's key count, and replaces the keys of
// groups whose rackd was revoked.
//
// A group's key is derived from the fleet's key, the group's name and a number, its generation. The table
// group_keys holds the numbers; a group without a row has generation 0. A replacement begins with the next
// number (Begin) and goes through five stages, which the keeper moves on:
//
//	handing out   renewals bring the new generation, which opens only
//	sealing       central seals with it, as soon as all its replicas know
//	publishing    all documents of the group's nodes are made anew; rackds seal with it
//	ending        work that began before that runs on, with the agents that trust the old generation
//	withdrawing   renewals bring the new generation alone
//
// It may import central/store and protocol. Invariants:
//   - A generation that is handed out to no member that was revoked seals from the second stage on.
//   - No stage waits for ever: rackds that stay away or do not renew hold none up for longer than Bound.
//   - Central never seals with a generation that no living rackd of the group has, unless an operator says so.
//   - What a replica does not know of the numbers it does not seal with: ForGroup fails rather than
//     use numbers that it read long ago.
package groupkeys
