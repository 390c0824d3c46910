-- +goose Up
-- A word is looked for in every run of a project: beside the order that a list
-- walks, so that only the runs on the page are read.
DROP INDEX runs_created;
DROP INDEX runs_last;
DROP INDEX runs_name;
CREATE INDEX runs_created ON runs (project, created_ns, pk, search) WHERE deleted_ns = 0;
CREATE INDEX runs_last ON runs (project, last_ns, pk, search) WHERE deleted_ns = 0;
CREATE INDEX runs_name ON runs (project, name, pk, search) WHERE deleted_ns = 0;
CREATE INDEX runs_by_status ON runs (project, status, pk, search) WHERE deleted_ns = 0;

-- +goose Down
DROP INDEX runs_by_status;
DROP INDEX runs_name;
DROP INDEX runs_last;
DROP INDEX runs_created;
CREATE INDEX runs_created ON runs (project, created_ns, pk) WHERE deleted_ns = 0;
CREATE INDEX runs_last ON runs (project, last_ns, pk) WHERE deleted_ns = 0;
CREATE INDEX runs_name ON runs (project, name, pk) WHERE deleted_ns = 0;
