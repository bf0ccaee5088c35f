CREATE INDEX node_history_node ON node_history (node, created_at, uuid)
