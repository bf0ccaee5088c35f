CREATE INDEX allocations_state ON allocations (state, created_at, uuid)
