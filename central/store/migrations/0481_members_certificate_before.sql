-- Fingerprint of the certificate that the newest took the place of.
ALTER TABLE members ADD COLUMN certificate_before TEXT NOT NULL DEFAULT ''
