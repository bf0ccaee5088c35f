CREATE TABLE chassis (
    uuid TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    extra TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL DEFAULT 0,
    updated_at BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT chassis_pkey PRIMARY KEY (uuid)
)
