CREATE INDEX members_site ON members (site, role, id)
