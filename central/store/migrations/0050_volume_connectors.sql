CREATE TABLE volume_connectors (
    uuid TEXT NOT NULL,
    node TEXT NOT NULL,
    type TEXT NOT NULL,
    connector_id TEXT NOT NULL,
    extra TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL DEFAULT 0,
    updated_at BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT volume_connectors_pkey PRIMARY KEY (uuid)
)
