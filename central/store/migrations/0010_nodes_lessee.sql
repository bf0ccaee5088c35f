CREATE INDEX nodes_lessee ON nodes (lessee, created_at, uuid) WHERE lessee <> ''
