-- +goose Up
-- Artifacts of projects. They outlive the runs that logged them.
CREATE TABLE artifact_collections (
  id          INTEGER PRIMARY KEY,
  project     INTEGER NOT NULL REFERENCES projects (id),
  name        TEXT NOT NULL,
  type        TEXT NOT NULL,
  portfolio   INTEGER NOT NULL, -- 1: its versions are links
  description TEXT NOT NULL,
  tags        TEXT NOT NULL, -- JSON, sorted
  created_ns  INTEGER NOT NULL,
  changed_ns  INTEGER NOT NULL,
  next        INTEGER NOT NULL, -- number of the next version
  UNIQUE (project, name)
) STRICT;
CREATE INDEX artifact_collections_type ON artifact_collections (project, type, name);

CREATE TABLE artifacts (
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  collection      INTEGER NOT NULL REFERENCES artifact_collections (id) ON DELETE CASCADE,
  state           TEXT NOT NULL,
  digest          TEXT NOT NULL,
  client_id       TEXT NOT NULL,
  distributed_id  TEXT NOT NULL,
  tags            TEXT NOT NULL, -- JSON, sorted
  aliases         TEXT NOT NULL, -- JSON, of a pending one: what it gets with its commit
  created_ns      INTEGER NOT NULL,
  changed_ns      INTEGER NOT NULL,
  committed_ns    INTEGER NOT NULL,
  run             INTEGER REFERENCES runs (pk) ON DELETE SET NULL,
  history_step    INTEGER,
  files           INTEGER NOT NULL, -- of a pending one: rows of artifact_files
  bytes           INTEGER NOT NULL,
  manifest_sha256 TEXT NOT NULL,
  manifest_size   INTEGER NOT NULL,
  manifest_md5    TEXT NOT NULL
) STRICT;
CREATE INDEX artifacts_digest ON artifacts (collection, digest, state);
CREATE INDEX artifacts_client ON artifacts (client_id) WHERE client_id <> '';
CREATE INDEX artifacts_run ON artifacts (run);
CREATE INDEX artifacts_manifest ON artifacts (manifest_sha256) WHERE manifest_sha256 <> '';
CREATE INDEX artifacts_pending ON artifacts (created_ns) WHERE state = 'PENDING';

-- Apart from the rows that each file changes.
CREATE TABLE artifact_texts (
  artifact    INTEGER PRIMARY KEY REFERENCES artifacts (id) ON DELETE CASCADE,
  description TEXT NOT NULL,
  metadata    TEXT NOT NULL
) STRICT;

-- The versions of collections.
CREATE TABLE artifact_members (
  collection INTEGER NOT NULL REFERENCES artifact_collections (id) ON DELETE CASCADE,
  version    INTEGER NOT NULL,
  artifact   INTEGER NOT NULL REFERENCES artifacts (id) ON DELETE CASCADE,
  added_ns   INTEGER NOT NULL,
  PRIMARY KEY (collection, version)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX artifact_members_artifact ON artifact_members (artifact, collection);

CREATE TABLE artifact_aliases (
  collection INTEGER NOT NULL REFERENCES artifact_collections (id) ON DELETE CASCADE,
  alias      TEXT NOT NULL,
  artifact   INTEGER NOT NULL REFERENCES artifacts (id) ON DELETE CASCADE,
  PRIMARY KEY (collection, alias)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_aliases_artifact ON artifact_aliases (artifact, collection, alias);

CREATE TABLE artifact_files (
  artifact     INTEGER NOT NULL REFERENCES artifacts (id) ON DELETE CASCADE,
  name         TEXT NOT NULL,
  sha256       TEXT NOT NULL,
  size         INTEGER NOT NULL,
  content_type TEXT NOT NULL,
  md5          TEXT NOT NULL,
  changed_ns   INTEGER NOT NULL,
  PRIMARY KEY (artifact, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_files_sha256 ON artifact_files (sha256);
CREATE INDEX artifact_files_md5 ON artifact_files (md5);

CREATE TABLE artifact_manifests (
  artifact INTEGER NOT NULL REFERENCES artifacts (id) ON DELETE CASCADE,
  number   INTEGER NOT NULL,
  kind     TEXT NOT NULL,
  name     TEXT NOT NULL,
  digest   TEXT NOT NULL,
  base     INTEGER NOT NULL, -- an artifact, 0: none
  sha256   TEXT NOT NULL,
  size     INTEGER NOT NULL,
  md5      TEXT NOT NULL,
  PRIMARY KEY (artifact, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_manifests_sha256 ON artifact_manifests (sha256) WHERE sha256 <> '';

CREATE TABLE artifact_runs (
  run      INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  role     TEXT NOT NULL, -- logged or used
  artifact INTEGER NOT NULL REFERENCES artifacts (id) ON DELETE CASCADE,
  at_ns    INTEGER NOT NULL,
  PRIMARY KEY (run, role, artifact)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_runs_artifact ON artifact_runs (artifact, role, run);

-- +goose Down
DROP TABLE artifact_runs;
DROP TABLE artifact_manifests;
DROP TABLE artifact_files;
DROP TABLE artifact_aliases;
DROP TABLE artifact_members;
DROP TABLE artifact_texts;
DROP TABLE artifacts;
DROP TABLE artifact_collections;
