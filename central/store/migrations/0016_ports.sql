CREATE TABLE ports (
    uuid TEXT NOT NULL,
    node TEXT NOT NULL,
    address TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    description TEXT NOT NULL DEFAULT '',
    pxe_enabled BOOLEAN NOT NULL DEFAULT TRUE,
    is_smartnic BOOLEAN NOT NULL DEFAULT FALSE,
    physical_network TEXT NOT NULL DEFAULT '',
    portgroup_uuid TEXT NOT NULL DEFAULT '',
    vendor TEXT NOT NULL DEFAULT '',
    category TEXT NOT NULL DEFAULT '',
    local_link_connection TEXT NOT NULL DEFAULT '',
    extra TEXT NOT NULL DEFAULT '',
    internal_info TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL DEFAULT 0,
    updated_at BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT ports_pkey PRIMARY KEY (uuid)
)
