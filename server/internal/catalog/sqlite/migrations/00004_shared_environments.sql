-- +goose Up
-- RL environments that two writers of a run logged at the same time.
CREATE TABLE shared_environments (
  run     INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  env     TEXT NOT NULL,
  writer  BLOB NOT NULL, -- the smaller of the two
  other   BLOB NOT NULL,
  time_ns INTEGER NOT NULL,
  PRIMARY KEY (run, env, writer, other)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE shared_environments;
