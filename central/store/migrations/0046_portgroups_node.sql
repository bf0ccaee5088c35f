CREATE INDEX portgroups_node ON portgroups (node)
