CREATE INDEX ports_node ON ports (node, uuid)
