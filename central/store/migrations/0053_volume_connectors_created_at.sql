CREATE INDEX volume_connectors_created_at ON volume_connectors (created_at, uuid)
