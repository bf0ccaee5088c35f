CREATE INDEX nodes_retired ON nodes (created_at, uuid) WHERE retired
