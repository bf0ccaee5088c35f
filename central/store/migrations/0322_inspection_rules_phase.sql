CREATE INDEX inspection_rules_phase ON inspection_rules (phase, created_at, uuid)
