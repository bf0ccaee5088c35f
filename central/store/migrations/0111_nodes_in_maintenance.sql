CREATE INDEX nodes_in_maintenance ON nodes (created_at, uuid) WHERE maintenance
