-- +goose Up
CREATE TABLE renderings (
  run     INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  id      TEXT NOT NULL,
  env     TEXT NOT NULL,
  episode INTEGER NOT NULL,
  time_ns INTEGER NOT NULL,
  sha256  TEXT NOT NULL, -- '' when the video is lost
  doc     TEXT NOT NULL, -- JSON of model.Rendering
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX renderings_env ON renderings (run, env, episode, time_ns, id);
CREATE INDEX renderings_sha256 ON renderings (sha256);

-- +goose Down
DROP TABLE renderings;
