CREATE TABLE node_inventory (
    node TEXT NOT NULL,
    data TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    CONSTRAINT node_inventory_pkey PRIMARY KEY (node)
)
