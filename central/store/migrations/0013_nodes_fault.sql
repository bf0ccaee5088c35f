CREATE INDEX nodes_fault ON nodes (fault, uuid) WHERE fault <> ''
