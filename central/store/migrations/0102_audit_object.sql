CREATE INDEX audit_object ON audit (object, uuid) WHERE object <> node
