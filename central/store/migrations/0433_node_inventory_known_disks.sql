ALTER TABLE node_inventory ADD COLUMN known_disks TEXT NOT NULL DEFAULT ''
