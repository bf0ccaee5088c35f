CREATE TABLE join_tokens (
    id TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    scope TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT NOT NULL DEFAULT 0,
    used_key TEXT NOT NULL DEFAULT '',
    member TEXT NOT NULL DEFAULT '',
    revoked_at BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT join_tokens_pkey PRIMARY KEY (id)
)
