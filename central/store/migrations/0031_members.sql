CREATE TABLE members (
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    site TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL,
    scope TEXT NOT NULL,
    user_key TEXT NOT NULL,
    joined_at BIGINT NOT NULL,
    renewed_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT members_pkey PRIMARY KEY (id)
)
