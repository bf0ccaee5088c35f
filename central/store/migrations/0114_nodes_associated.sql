CREATE INDEX nodes_associated ON nodes (created_at, uuid) WHERE instance_uuid <> ''
