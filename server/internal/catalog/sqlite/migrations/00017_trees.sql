-- +goose Up
-- Exact texts of runs, up to 8 MiB each. With a rowid they lie apart from the tree of their names.
CREATE TABLE trees (
  run        INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  name       TEXT NOT NULL,
  changed_ns INTEGER NOT NULL,
  text       TEXT NOT NULL,
  PRIMARY KEY (run, name)
) STRICT;

-- +goose Down
DROP TABLE trees;
