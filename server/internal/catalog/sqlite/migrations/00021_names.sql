-- +goose Up
-- What people call runs and projects leads to them, in all projects and in one: the newest
-- first, the trash apart.
CREATE INDEX runs_called ON runs (name, (deleted_ns > 0), project, created_ns, pk);
CREATE INDEX runs_shown ON runs (display_name, (deleted_ns > 0), project, created_ns, pk) WHERE display_name <> '';
CREATE UNIQUE INDEX projects_name ON projects (name, workspace);

-- +goose Down
DROP INDEX projects_name;
DROP INDEX runs_shown;
DROP INDEX runs_called;
