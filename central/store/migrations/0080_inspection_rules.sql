CREATE TABLE inspection_rules (
    uuid TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    priority BIGINT NOT NULL DEFAULT 0,
    sensitive BOOLEAN NOT NULL DEFAULT FALSE,
    phase TEXT NOT NULL DEFAULT '',
    conditions TEXT NOT NULL DEFAULT '',
    actions TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL DEFAULT 0,
    updated_at BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT inspection_rules_pkey PRIMARY KEY (uuid)
)
