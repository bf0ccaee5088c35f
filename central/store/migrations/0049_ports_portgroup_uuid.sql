CREATE INDEX ports_portgroup_uuid ON ports (portgroup_uuid) WHERE portgroup_uuid <> ''
