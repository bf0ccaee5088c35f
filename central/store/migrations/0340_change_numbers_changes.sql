INSERT INTO change_numbers (name, newest, pruned) VALUES ('changes', 0, 0) ON CONFLICT (name) DO NOTHING
