-- +goose Up
-- last_ns becomes the end that the writers named by their own clocks; seen_ns is
-- the last sign of life by the server's, what retention goes by.
ALTER TABLE runs ADD COLUMN seen_ns INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET seen_ns = last_ns;
ALTER TABLE writers ADD COLUMN ended_ns INTEGER NOT NULL DEFAULT 0; -- 0: it did not say

-- +goose Down
UPDATE runs SET last_ns = seen_ns;
ALTER TABLE writers DROP COLUMN ended_ns;
ALTER TABLE runs DROP COLUMN seen_ns;
