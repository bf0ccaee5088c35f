CREATE INDEX nodes_free ON nodes (created_at, uuid) WHERE instance_uuid = ''
