CREATE INDEX allocations_owner ON allocations (owner, created_at, uuid) WHERE owner <> ''
