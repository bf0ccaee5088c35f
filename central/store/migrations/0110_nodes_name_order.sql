-- nodes_name holds names apart and leaves out nodes without one. This one sorts all.
CREATE INDEX nodes_name_order ON nodes (name, created_at, uuid)
