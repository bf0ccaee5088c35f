CREATE INDEX runbooks_created_at ON runbooks (created_at, uuid)
