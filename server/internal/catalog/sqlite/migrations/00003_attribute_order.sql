-- +goose Up
-- Lists of runs by an attribute: sorting walks it, a comparison is a range of it.
-- The type is in it so that a comparison reads nothing else.
CREATE INDEX attributes_key ON attributes (path, key, run, type);
-- By age, for the runs that lack the attribute that a list is sorted by.
CREATE INDEX runs_age ON runs (project);

-- +goose Down
DROP INDEX runs_age;
DROP INDEX attributes_key;
