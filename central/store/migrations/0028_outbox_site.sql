CREATE INDEX outbox_site ON outbox (site, id)
