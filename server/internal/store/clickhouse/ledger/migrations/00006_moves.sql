-- +goose Up
-- Why no server may use the store: its points are on their way, or were moved into a data folder.
ALTER TABLE ledger_store ADD COLUMN moving TEXT;
