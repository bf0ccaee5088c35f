-- One piece of work per node: the database holds it.
CREATE UNIQUE INDEX works_open ON works (node) WHERE state = 'open'
