CREATE TABLE allocations (
    uuid TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    node TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL DEFAULT '',
    last_error TEXT NOT NULL DEFAULT '',
    resource_class TEXT NOT NULL DEFAULT '',
    owner TEXT NOT NULL DEFAULT '',
    traits TEXT NOT NULL DEFAULT '',
    candidate_nodes TEXT NOT NULL DEFAULT '',
    extra TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL DEFAULT 0,
    updated_at BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT allocations_pkey PRIMARY KEY (uuid)
)
