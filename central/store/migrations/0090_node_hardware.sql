CREATE TABLE node_hardware (
    node TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    initial TEXT NOT NULL,
    data TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (node, kind, name)
)
