UPDATE nodes SET revision = revision + 1, traits = (SELECT string_agg(t.trait, ',' ORDER BY t.trait) FROM node_traits t WHERE t.node = nodes.uuid)
    WHERE uuid IN (SELECT node FROM node_traits)
