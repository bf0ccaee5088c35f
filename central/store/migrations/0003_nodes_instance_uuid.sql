CREATE UNIQUE INDEX nodes_instance_uuid ON nodes (instance_uuid) WHERE instance_uuid <> ''
