CREATE UNIQUE INDEX deploy_templates_name ON deploy_templates (name)
