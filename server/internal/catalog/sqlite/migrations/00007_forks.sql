-- +goose Up
-- The run that a fork goes on from, by its id: a name may come to mean another.
ALTER TABLE runs ADD COLUMN parent BLOB; -- NULL while no run of the name is here
UPDATE runs SET parent = (SELECT p.id FROM runs p WHERE p.project = runs.project AND p.name = runs.parent_run AND p.pk <> runs.pk) WHERE parent_run <> '';
CREATE INDEX runs_forks ON runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_orphans ON runs (project, parent_run) WHERE parent IS NULL AND parent_run <> '';

-- +goose Down
DROP INDEX runs_orphans;
DROP INDEX runs_forks;
ALTER TABLE runs DROP COLUMN parent;
