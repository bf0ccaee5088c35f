CREATE TABLE audit (
    uuid TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    request_id TEXT NOT NULL,
    user_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    project TEXT NOT NULL,
    client TEXT NOT NULL,
    action TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    resource TEXT NOT NULL,
    object TEXT NOT NULL,
    node TEXT NOT NULL,
    status BIGINT NOT NULL,
    result TEXT NOT NULL,
    error TEXT NOT NULL,
    CONSTRAINT audit_pkey PRIMARY KEY (uuid)
)
