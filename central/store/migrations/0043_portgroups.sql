CREATE TABLE portgroups (
    uuid TEXT NOT NULL,
    node TEXT NOT NULL,
    address TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL DEFAULT '',
    mode TEXT NOT NULL DEFAULT '',
    standalone_ports_supported BOOLEAN NOT NULL DEFAULT TRUE,
    dynamic_portgroup BOOLEAN NOT NULL DEFAULT FALSE,
    physical_network TEXT NOT NULL DEFAULT '',
    category TEXT NOT NULL DEFAULT '',
    properties TEXT NOT NULL DEFAULT '',
    extra TEXT NOT NULL DEFAULT '',
    internal_info TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL DEFAULT 0,
    updated_at BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT portgroups_pkey PRIMARY KEY (uuid)
)
