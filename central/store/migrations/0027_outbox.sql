-- Entries are asked for, and removed, by site.
CREATE TABLE outbox (
    id TEXT NOT NULL,
    site TEXT NOT NULL,
    origin TEXT NOT NULL,
    kind TEXT NOT NULL,
    node TEXT NOT NULL,
    conductor_group TEXT NOT NULL,
    object TEXT NOT NULL DEFAULT '',
    payload TEXT NOT NULL DEFAULT '',
    CONSTRAINT outbox_pkey PRIMARY KEY (site, id)
)
