CREATE UNIQUE INDEX runbooks_name ON runbooks (name)
