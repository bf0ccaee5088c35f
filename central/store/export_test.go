package store

// NodesStatement is the statement of a page of nodes that are shown, and its arguments.
func NodesStatement(q NodeQuery) (string, []any, error) { return nodesStatement(selectShown, q) }

// NodeSorts are the keys by which nodes are sorted.
var NodeSorts = nodeSorts
