CREATE UNIQUE INDEX portgroups_name ON portgroups (name) WHERE name <> ''
