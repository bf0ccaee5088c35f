ALTER TABLE ports ADD COLUMN available_for_dynamic_portgroup BOOLEAN NOT NULL DEFAULT TRUE
