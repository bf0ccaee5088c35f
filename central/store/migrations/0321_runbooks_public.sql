CREATE INDEX runbooks_public ON runbooks (created_at, uuid) WHERE public
