-- +goose Up
CREATE TABLE projects (
  id        INTEGER PRIMARY KEY,
  workspace TEXT NOT NULL,
  name      TEXT NOT NULL,
  UNIQUE (workspace, name)
) STRICT;

CREATE TABLE runs (
  pk               INTEGER PRIMARY KEY,
  id               BLOB NOT NULL UNIQUE,
  project          INTEGER NOT NULL REFERENCES projects (id),
  name             TEXT NOT NULL,
  display_name     TEXT NOT NULL DEFAULT '',
  description      TEXT NOT NULL DEFAULT '',
  tags             TEXT NOT NULL DEFAULT '[]', -- JSON of the table tags, for lists
  search           TEXT NOT NULL DEFAULT '',   -- name, display name and tags in lower case
  status           TEXT NOT NULL,              -- derived from writers
  created_ns       INTEGER NOT NULL,
  last_ns          INTEGER NOT NULL,
  attempt          INTEGER NOT NULL,           -- the latest by precedence
  orchestration_id TEXT NOT NULL,
  parent_run       TEXT NOT NULL DEFAULT '',
  fork_step        INTEGER,
  linked_from      TEXT NOT NULL DEFAULT '',
  writers          INTEGER NOT NULL DEFAULT 0,
  dropped          INTEGER NOT NULL DEFAULT 0,
  refused          INTEGER NOT NULL DEFAULT 0,
  deleted_ns       INTEGER NOT NULL DEFAULT 0,
  applied_lsn      INTEGER NOT NULL DEFAULT 0,
  UNIQUE (project, name)
) STRICT;
CREATE INDEX runs_created ON runs (project, created_ns, pk) WHERE deleted_ns = 0;
CREATE INDEX runs_last ON runs (project, last_ns, pk) WHERE deleted_ns = 0;
CREATE INDEX runs_name ON runs (project, name, pk) WHERE deleted_ns = 0;
CREATE INDEX runs_status ON runs (project, status, created_ns, pk) WHERE deleted_ns = 0;
CREATE INDEX runs_trash ON runs (deleted_ns) WHERE deleted_ns > 0;

-- Who may join which run. Rows outlive a purge (purged_ns), so that late points
-- of a deleted run do not make it anew.
CREATE TABLE identities (
  project          INTEGER NOT NULL,
  name             TEXT NOT NULL, -- the name asked for
  orchestration_id TEXT NOT NULL,
  run              BLOB NOT NULL,
  purged_ns        INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (project, name, orchestration_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX identities_run ON identities (run);

-- Every ULID that ever meant a run: its own and the local ones of clients.
CREATE TABLE ids (
  id  BLOB NOT NULL PRIMARY KEY,
  run BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX ids_run ON ids (run);

CREATE TABLE attempts (
  run              INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  number           INTEGER NOT NULL,
  precedence       INTEGER NOT NULL,
  opened_ns        INTEGER NOT NULL,
  resume_from      INTEGER,
  orchestration_id TEXT NOT NULL,
  restart_count    INTEGER,
  PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX attempts_restart ON attempts (run, orchestration_id, restart_count) WHERE restart_count IS NOT NULL;

-- The attempt of a parent whose children arrived first.
CREATE TABLE parents (
  run     INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  writer  BLOB NOT NULL,
  attempt INTEGER NOT NULL,
  PRIMARY KEY (run, writer)
) STRICT, WITHOUT ROWID;

-- Writers outlive a purge: the same writer never makes a second run.
CREATE TABLE writers (
  id        BLOB NOT NULL PRIMARY KEY,
  run       BLOB NOT NULL,
  attempt   INTEGER NOT NULL,
  state     TEXT NOT NULL,
  expired   INTEGER NOT NULL DEFAULT 0, -- gone by silence only: a sign of life reopens it
  host      TEXT NOT NULL,
  pid       INTEGER NOT NULL,
  rank      INTEGER,
  hotkey    TEXT NOT NULL,
  sdk       TEXT NOT NULL,
  logger_id INTEGER,
  opened_ns INTEGER NOT NULL,
  seen_ns   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX writers_run ON writers (run, attempt, state);
CREATE INDEX writers_open ON writers (seen_ns) WHERE state = 'open';

CREATE TABLE attributes (
  run   INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  path  TEXT NOT NULL,
  type  TEXT NOT NULL,
  value TEXT NOT NULL, -- JSON of model.Value
  key   ANY,           -- what sorts and compares: integer, real or text; NULL for NaN
  PRIMARY KEY (run, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE env_attributes (
  run     INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  env     TEXT NOT NULL,
  scoped  INTEGER NOT NULL, -- 1: of one episode
  episode INTEGER NOT NULL,
  path    TEXT NOT NULL,
  value   TEXT NOT NULL,
  PRIMARY KEY (run, env, scoped, episode, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE tags (
  run INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  tag TEXT NOT NULL,
  PRIMARY KEY (run, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX tags_tag ON tags (tag, run);

CREATE TABLE events (
  id      INTEGER PRIMARY KEY,
  run     INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  time_ns INTEGER NOT NULL,
  name    TEXT NOT NULL,
  text    TEXT NOT NULL,
  tags    TEXT NOT NULL
) STRICT;
CREATE INDEX events_run ON events (run, time_ns, id);

CREATE TABLE keys (
  id         TEXT NOT NULL PRIMARY KEY,
  name       TEXT NOT NULL,
  sha256     BLOB NOT NULL UNIQUE,
  scopes     TEXT NOT NULL, -- JSON
  workspace  TEXT NOT NULL,
  project    TEXT NOT NULL,
  created_ns INTEGER NOT NULL,
  expires_ns INTEGER NOT NULL,
  revoked_ns INTEGER NOT NULL,
  last_ns    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE keys;
DROP TABLE events;
DROP TABLE tags;
DROP TABLE env_attributes;
DROP TABLE attributes;
DROP TABLE writers;
DROP TABLE parents;
DROP TABLE attempts;
DROP TABLE ids;
DROP TABLE identities;
DROP TABLE runs;
DROP TABLE projects;
