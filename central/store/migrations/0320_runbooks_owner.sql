CREATE INDEX runbooks_owner ON runbooks (owner, created_at, uuid) WHERE owner <> ''
