-- One living member of a role under a name.
CREATE UNIQUE INDEX members_name ON members (role, name) WHERE ended_at = 0
