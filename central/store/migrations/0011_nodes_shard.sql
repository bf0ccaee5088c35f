CREATE INDEX nodes_shard ON nodes (shard, created_at, uuid)
