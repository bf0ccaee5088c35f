CREATE INDEX chassis_created_at ON chassis (created_at, uuid)
