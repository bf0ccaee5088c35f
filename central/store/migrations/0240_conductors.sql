CREATE TABLE conductors (
    name TEXT NOT NULL,
    conductor_group TEXT NOT NULL,
    drivers TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    CONSTRAINT conductors_pkey PRIMARY KEY (name)
)
