CREATE INDEX nodes_conductor_group ON nodes (conductor_group, created_at, uuid)
