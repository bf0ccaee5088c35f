CREATE UNIQUE INDEX ports_address ON ports (address)
