CREATE INDEX nodes_parent_node ON nodes (parent_node, uuid) WHERE parent_node <> ''
