CREATE INDEX nodes_secure_boot ON nodes (secure_boot, created_at, uuid) WHERE secure_boot IS NOT NULL
