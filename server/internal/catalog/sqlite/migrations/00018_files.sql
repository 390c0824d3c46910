-- +goose Up
CREATE TABLE files (
  run          INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  name         TEXT NOT NULL,
  sha256       TEXT NOT NULL,
  size         INTEGER NOT NULL,
  content_type TEXT NOT NULL,
  md5          TEXT NOT NULL,
  changed_ns   INTEGER NOT NULL,
  PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX files_sha256 ON files (sha256);

-- +goose Down
DROP TABLE files;
