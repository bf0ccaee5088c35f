CREATE TABLE node_history (
    uuid TEXT NOT NULL,
    node TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    severity TEXT NOT NULL DEFAULT '',
    event_type TEXT NOT NULL DEFAULT '',
    event TEXT NOT NULL DEFAULT '',
    conductor TEXT NOT NULL DEFAULT '',
    user_id TEXT NOT NULL DEFAULT '',
    work TEXT NOT NULL DEFAULT '',
    phase TEXT NOT NULL DEFAULT '',
    seconds DOUBLE PRECISION NOT NULL DEFAULT 0,
    CONSTRAINT node_history_pkey PRIMARY KEY (uuid)
)
