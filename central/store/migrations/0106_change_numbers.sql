CREATE TABLE change_numbers (
    name TEXT NOT NULL,
    newest BIGINT NOT NULL,
    pruned BIGINT NOT NULL,
    CONSTRAINT change_numbers_pkey PRIMARY KEY (name)
)
