-- nodes_name has the names, of which no two are the same, and leaves out nodes without one.
CREATE INDEX nodes_unnamed ON nodes (created_at, uuid) WHERE name = ''
