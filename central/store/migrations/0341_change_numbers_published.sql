INSERT INTO change_numbers (name, newest, pruned) SELECT 'published', newest, 0 FROM change_numbers WHERE name = 'changes' ON CONFLICT (name) DO NOTHING
