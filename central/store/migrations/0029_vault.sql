-- What central must keep secret besides nodes' fields, sealed with the fleet's key.
CREATE TABLE vault (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    CONSTRAINT vault_pkey PRIMARY KEY (name)
)
