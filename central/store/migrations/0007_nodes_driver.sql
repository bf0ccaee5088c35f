CREATE INDEX nodes_driver ON nodes (driver, created_at, uuid)
