-- +goose Up
-- Display names in their order, for a look at those near a wrong one. They may be long.
CREATE INDEX runs_near ON runs (substr(display_name, 1, 256)) WHERE display_name <> '';

-- +goose Down
DROP INDEX runs_near;
