CREATE INDEX portgroups_created_at ON portgroups (created_at, uuid)
