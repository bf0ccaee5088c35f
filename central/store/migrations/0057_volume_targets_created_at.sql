CREATE INDEX volume_targets_created_at ON volume_targets (created_at, uuid)
