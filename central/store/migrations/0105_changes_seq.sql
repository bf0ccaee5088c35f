CREATE INDEX changes_seq ON changes (seq, uuid)
