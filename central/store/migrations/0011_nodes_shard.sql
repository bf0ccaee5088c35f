CREATE INDEX nodes_shard ON nodes (shard, uuid)
