CREATE TABLE volume_targets (
    uuid TEXT NOT NULL,
    node TEXT NOT NULL,
    volume_type TEXT NOT NULL,
    volume_id TEXT NOT NULL,
    boot_index BIGINT NOT NULL,
    properties TEXT NOT NULL DEFAULT '',
    extra TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL DEFAULT 0,
    updated_at BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT volume_targets_pkey PRIMARY KEY (uuid)
)
