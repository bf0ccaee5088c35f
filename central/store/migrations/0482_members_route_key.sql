-- Hash of the public key that a NATS server shows to the others of its cluster.
ALTER TABLE members ADD COLUMN route_key TEXT NOT NULL DEFAULT ''
