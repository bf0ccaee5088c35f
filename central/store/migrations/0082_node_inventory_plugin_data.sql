ALTER TABLE node_inventory ADD COLUMN plugin_data TEXT NOT NULL DEFAULT ''
