CREATE TABLE publication (
    name TEXT NOT NULL,
    told BIGINT NOT NULL,
    claimed BIGINT NOT NULL,
    turn BIGINT NOT NULL,
    CONSTRAINT publication_pkey PRIMARY KEY (name)
)
