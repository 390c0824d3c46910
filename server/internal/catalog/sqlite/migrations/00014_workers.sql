-- +goose Up
-- The writers that decide how a run ended; of workers there may be very many.
CREATE INDEX writers_deciding ON writers (run, attempt, state) WHERE sdk NOT LIKE 'worker/%';

-- +goose Down
DROP INDEX writers_deciding;
