CREATE INDEX inspection_rules_created_at ON inspection_rules (created_at, uuid)
