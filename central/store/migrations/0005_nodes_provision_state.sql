CREATE INDEX nodes_provision_state ON nodes (provision_state, created_at, uuid)
