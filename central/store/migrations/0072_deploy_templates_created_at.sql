CREATE INDEX deploy_templates_created_at ON deploy_templates (created_at, uuid)
