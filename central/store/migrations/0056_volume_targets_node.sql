CREATE INDEX volume_targets_node ON volume_targets (node)
