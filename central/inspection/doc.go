// Package inspection makes of what an inspection found what central keeps: it runs the
// hooks, which set properties and add ports, and the operators' rules, which do whatever
// their conditions and actions say.
//
// It may import central/store, central/notation and protocol. Invariants: what was found is a machine's
// word and may be anything, so nothing here trusts its shape; a Subject is only changed in
// memory, and Process writes it as a whole or, when hooks or rules refuse, not at all;
// a rule that parses can be applied to any subject without a panic.
package inspection
