CREATE INDEX nodes_instance_name ON nodes (instance_name, created_at, uuid) WHERE instance_name <> ''
