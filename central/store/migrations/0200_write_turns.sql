CREATE TABLE write_turns (name TEXT NOT NULL, CONSTRAINT write_turns_pkey PRIMARY KEY (name))
