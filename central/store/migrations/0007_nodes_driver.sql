CREATE INDEX nodes_driver ON nodes (driver, uuid)
