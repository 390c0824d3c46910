-- +goose Up
-- The least and the greatest finite value of a stream, as curve.OrderOf orders them; the first is
-- the higher one where none is finite. Null in rows of before, and for all that is added to them.
ALTER TABLE ledger_streams ADD least BIGINT, ADD greatest BIGINT;
