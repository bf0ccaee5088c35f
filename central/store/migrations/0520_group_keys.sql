CREATE TABLE group_keys (
    conductor_group TEXT NOT NULL,
    newest BIGINT NOT NULL,
    sealing BIGINT NOT NULL,
    oldest BIGINT NOT NULL,
    stage TEXT NOT NULL,
    stage_at BIGINT NOT NULL,
    began_at BIGINT NOT NULL,
    hastened BIGINT NOT NULL,
    CONSTRAINT group_keys_pkey PRIMARY KEY (conductor_group)
)
