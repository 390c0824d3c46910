-- +goose Up
-- What ended the process of an interrupted writer: SIGINT, SIGTERM.
ALTER TABLE writers ADD COLUMN signal TEXT NOT NULL DEFAULT '';

-- +goose Down
UPDATE writers SET state = 'gone' WHERE state = 'interrupted';
UPDATE runs SET status = 'lost' WHERE status = 'interrupted';
ALTER TABLE writers DROP COLUMN signal;
