CREATE UNIQUE INDEX allocations_node ON allocations (node) WHERE node <> ''
