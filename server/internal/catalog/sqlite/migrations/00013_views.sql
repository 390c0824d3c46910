-- +goose Up
-- Views of projects (docs/format/view.md). They outlive the runs that they show.
CREATE TABLE views (
  project    INTEGER NOT NULL REFERENCES projects (id),
  name       TEXT NOT NULL,
  title      TEXT NOT NULL,
  panels     INTEGER NOT NULL,
  tag        TEXT NOT NULL, -- of the document, see view.Tag
  changed_ns INTEGER NOT NULL,
  document   TEXT NOT NULL,
  PRIMARY KEY (project, name)
) STRICT;

-- +goose Down
DROP TABLE views;
