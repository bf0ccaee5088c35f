CREATE INDEX allocations_resource_class ON allocations (resource_class, created_at, uuid)
