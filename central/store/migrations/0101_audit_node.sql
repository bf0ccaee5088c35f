CREATE INDEX audit_node ON audit (node, uuid)
