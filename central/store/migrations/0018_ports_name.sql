CREATE UNIQUE INDEX ports_name ON ports (name) WHERE name <> ''
