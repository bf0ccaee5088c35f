CREATE INDEX works_node ON works (node, generation)
