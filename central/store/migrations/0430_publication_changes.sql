INSERT INTO publication (name, told, claimed, turn) SELECT 'changes', newest, newest, 0 FROM change_numbers WHERE name = 'changes' ON CONFLICT (name) DO NOTHING
