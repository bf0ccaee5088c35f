CREATE INDEX nodes_chassis_uuid ON nodes (chassis_uuid) WHERE chassis_uuid <> ''
