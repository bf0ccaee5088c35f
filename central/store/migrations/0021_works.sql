CREATE TABLE works (
    id TEXT NOT NULL,
    node TEXT NOT NULL,
    conductor_group TEXT NOT NULL DEFAULT '',
    generation BIGINT NOT NULL,
    verb TEXT NOT NULL,
    args TEXT NOT NULL DEFAULT '',
    request_id TEXT NOT NULL DEFAULT '',
    entry TEXT NOT NULL,
    entry_target TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL,
    owner TEXT NOT NULL DEFAULT '',
    requested_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0,
    error TEXT NOT NULL DEFAULT '',
    CONSTRAINT works_pkey PRIMARY KEY (id)
)
