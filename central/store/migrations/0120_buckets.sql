CREATE TABLE buckets (
    site TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    first_revision BIGINT NOT NULL,
    last_revision BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    CONSTRAINT buckets_pkey PRIMARY KEY (site, name)
)
