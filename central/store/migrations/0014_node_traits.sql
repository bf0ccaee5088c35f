CREATE TABLE node_traits (
    node TEXT NOT NULL,
    trait TEXT NOT NULL,
    CONSTRAINT node_traits_pkey PRIMARY KEY (node, trait)
)
