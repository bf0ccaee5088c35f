ALTER TABLE inspection_rules ADD COLUMN empty_texts TEXT NOT NULL DEFAULT ''
