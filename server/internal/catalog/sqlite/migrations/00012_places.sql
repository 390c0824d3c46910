-- +goose Up
-- Attributes may be long. Without a rowid they lay in the tree that is searched: a search read
-- the texts that it passed, also those of other projects. Now the tree has their places only.
CREATE TABLE attributes_of (
  run   INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  path  TEXT NOT NULL,
  type  TEXT NOT NULL,
  value TEXT NOT NULL, -- JSON of model.Value
  key   ANY,           -- what sorts and compares: integer, real or the beginning of a text; NULL for NaN
  PRIMARY KEY (run, path)
) STRICT;
INSERT INTO attributes_of (run, path, type, value, key) SELECT run, path, type, value, key FROM attributes ORDER BY run, path;
DROP TABLE attributes;
ALTER TABLE attributes_of RENAME TO attributes;
CREATE INDEX attributes_key ON attributes (path, key, run, type);

CREATE TABLE env_attributes_of (
  run     INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  env     TEXT NOT NULL,
  scoped  INTEGER NOT NULL, -- 1: of one episode
  episode INTEGER NOT NULL,
  path    TEXT NOT NULL,
  value   TEXT NOT NULL,
  PRIMARY KEY (run, env, scoped, episode, path)
) STRICT;
INSERT INTO env_attributes_of SELECT run, env, scoped, episode, path, value FROM env_attributes ORDER BY run, env, scoped, episode, path;
DROP TABLE env_attributes;
ALTER TABLE env_attributes_of RENAME TO env_attributes;

-- A run's writers by age: their list is read page by page.
CREATE INDEX writers_age ON writers (run, opened_ns, id);

-- +goose Down
DROP INDEX writers_age;
