CREATE INDEX nodes_resource_class ON nodes (resource_class, created_at, uuid)
