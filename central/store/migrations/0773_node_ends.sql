CREATE TABLE node_ends (
    uuid TEXT NOT NULL,
    revision BIGINT NOT NULL,
    CONSTRAINT node_ends_pkey PRIMARY KEY (uuid)
)
