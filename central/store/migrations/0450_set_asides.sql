CREATE TABLE set_asides (
    id TEXT NOT NULL,
    site TEXT NOT NULL,
    place BIGINT NOT NULL,
    subject TEXT NOT NULL,
    node TEXT NOT NULL,
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    error TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT set_asides_pkey PRIMARY KEY (id)
)
