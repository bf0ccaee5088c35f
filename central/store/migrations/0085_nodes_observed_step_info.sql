-- The running step as the API shows it: JSON, empty for none.
ALTER TABLE nodes ADD COLUMN observed_step_info TEXT NOT NULL DEFAULT ''
