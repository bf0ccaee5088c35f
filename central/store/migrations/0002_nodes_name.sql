CREATE UNIQUE INDEX nodes_name ON nodes (name) WHERE name <> ''
