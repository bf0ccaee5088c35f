CREATE INDEX volume_connectors_node ON volume_connectors (node)
