CREATE INDEX ports_created_at ON ports (created_at, uuid)
