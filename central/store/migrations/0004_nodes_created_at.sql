CREATE INDEX nodes_created_at ON nodes (created_at, uuid)
