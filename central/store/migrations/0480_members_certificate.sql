-- Fingerprint of the newest certificate, empty of members that have not renewed since this column is there.
ALTER TABLE members ADD COLUMN certificate TEXT NOT NULL DEFAULT ''
