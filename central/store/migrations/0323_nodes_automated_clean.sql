CREATE INDEX nodes_automated_clean ON nodes (automated_clean, created_at, uuid) WHERE automated_clean IS NOT NULL
