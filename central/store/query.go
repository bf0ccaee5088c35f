package store

// Page is a keyset page. Rows come in the order of SortKey, then uuid; nodes of one value
// come in the order in which they were created.
type Page struct {
	Limit   int    // 0: 1000
	Marker  string // UUID of the last row of the page before
	SortKey string // API name of a field; empty: created_at
	Desc    bool
	// Project keeps out what a project may not see; empty: nothing is kept out.
	Project string
}

// NodeQuery filters nodes. A nil or empty filter does not filter.
type NodeQuery struct {
	Page
	UUIDs               []string
	InstanceUUID        string
	InstanceName        string
	Associated          *bool
	Maintenance         *bool
	Retired             *bool
	ProvisionState      *string
	Driver              string
	ResourceClass       string
	Fault               *string
	ConductorGroup      *string
	Owner               string
	Lessee              string
	Project             string  // owner or lessee
	DescriptionContains *string // in any case; the empty text: any description
	Shards              []string
	Sharded             *bool
	ChassisUUID         string
	// ParentNode lists the children of a node; otherwise children are left out
	// unless IncludeChildren.
	ParentNode      string
	IncludeChildren bool
}

// PortQuery filters ports. A nil or empty filter does not filter.
type PortQuery struct {
	Page
	UUIDs               []string
	Nodes               []string // node UUIDs
	Address             string
	Shards              []string // of the node
	ConductorGroups     []string // of the node
	DescriptionContains string
	Portgroups          []string // portgroup UUIDs
}

// HistoryQuery filters the history of a node.
type HistoryQuery struct {
	Page
	Node string // UUID, required
	Work string
	// Severity and EventType filter when set.
	Severity  string
	EventType string
}
