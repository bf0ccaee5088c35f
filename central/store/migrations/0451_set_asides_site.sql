CREATE INDEX set_asides_site ON set_asides (site, reason)
