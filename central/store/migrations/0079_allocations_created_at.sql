CREATE INDEX allocations_created_at ON allocations (created_at, uuid)
