CREATE UNIQUE INDEX volume_connectors_connector_id ON volume_connectors (connector_id, type)
