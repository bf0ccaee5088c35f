CREATE TABLE config_drives (
    node TEXT NOT NULL,
    drive TEXT NOT NULL,
    CONSTRAINT config_drives_pkey PRIMARY KEY (node)
)
