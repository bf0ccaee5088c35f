CREATE INDEX node_traits_trait ON node_traits (trait, node)
