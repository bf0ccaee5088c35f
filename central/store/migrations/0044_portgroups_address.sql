CREATE UNIQUE INDEX portgroups_address ON portgroups (address) WHERE address <> ''
