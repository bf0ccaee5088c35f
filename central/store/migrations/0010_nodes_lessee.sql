CREATE INDEX nodes_lessee ON nodes (lessee, uuid)
