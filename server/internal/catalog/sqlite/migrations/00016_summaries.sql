-- +goose Up
-- What lists filter and sort runs by, of each metric. It is derived from the store, so the
-- mirror has no copy.
CREATE TABLE summaries (
  run    INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  metric TEXT NOT NULL,
  points INTEGER NOT NULL,
  last   ANY, -- integer or real; NULL for NaN
  least  ANY, -- of the finite values; NULL where there is none
  most   ANY,
  PRIMARY KEY (run, metric)
) STRICT, WITHOUT ROWID;
-- One metric of all runs lies together: a comparison and a sort read nothing else of it.
CREATE INDEX summaries_metric ON summaries (metric, run, last, least, most);
CREATE TABLE summarised (
  run   INTEGER PRIMARY KEY REFERENCES runs (pk) ON DELETE CASCADE,
  at_ns INTEGER NOT NULL
) STRICT;

-- +goose Down
DROP TABLE summarised;
DROP TABLE summaries;
