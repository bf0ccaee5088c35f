CREATE INDEX nodes_owner ON nodes (owner, uuid)
