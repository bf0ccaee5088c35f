CREATE UNIQUE INDEX allocations_name ON allocations (name) WHERE name <> ''
