-- +goose Up
-- The least and the greatest finite value of a stream, as curve.OrderOf orders them; the first is
-- the higher one where none is finite. They are of so many points: where that is not the count, a
-- server that did not know them added some.
ALTER TABLE ledger_streams ADD least BIGINT, ADD greatest BIGINT, ADD valued BIGINT;
