-- +goose Up
-- 1: the run takes what this writer's init said of it, also in records behind
-- the open: it made the run, or is a rank of its job that began offline.
ALTER TABLE writers ADD COLUMN initial INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE writers DROP COLUMN initial;
