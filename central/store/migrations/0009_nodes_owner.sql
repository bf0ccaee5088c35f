CREATE INDEX nodes_owner ON nodes (owner, created_at, uuid) WHERE owner <> ''
