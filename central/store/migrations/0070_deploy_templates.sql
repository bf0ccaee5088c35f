CREATE TABLE deploy_templates (
    uuid TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    steps TEXT NOT NULL DEFAULT '',
    extra TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL DEFAULT 0,
    updated_at BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT deploy_templates_pkey PRIMARY KEY (uuid)
)
