CREATE INDEX audit_user ON audit (user_name, uuid) WHERE user_name <> ''
