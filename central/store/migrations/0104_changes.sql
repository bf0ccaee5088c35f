CREATE TABLE changes (
    uuid TEXT NOT NULL,
    seq BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    resource TEXT NOT NULL,
    object TEXT NOT NULL,
    node TEXT NOT NULL,
    event TEXT NOT NULL,
    phases TEXT NOT NULL,
    user_name TEXT NOT NULL,
    request_id TEXT NOT NULL,
    facts TEXT NOT NULL,
    CONSTRAINT changes_pkey PRIMARY KEY (seq, uuid)
)
