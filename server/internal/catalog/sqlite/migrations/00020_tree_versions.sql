-- +goose Up
-- What names a text: lists find texts that are in memory by it, and read no row of them.
ALTER TABLE trees ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
UPDATE trees SET version = random();
CREATE INDEX trees_version ON trees (run, name, version);

-- +goose Down
DROP INDEX trees_version;
ALTER TABLE trees DROP COLUMN version;
