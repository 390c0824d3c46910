-- +goose Up
-- An open looks at the neighbours of its attempt, not at every attempt and writer
-- that the run has had.
CREATE INDEX attempts_precedence ON attempts (run, precedence);
CREATE INDEX attempts_job ON attempts (run, orchestration_id, coalesce(restart_count, 0), opened_ns, precedence);
CREATE INDEX writers_running ON writers (run) WHERE state = 'open';
CREATE INDEX writers_ended ON writers (run, CASE ended_ns WHEN 0 THEN seen_ns ELSE ended_ns END) WHERE state <> 'open';

-- +goose Down
DROP INDEX writers_ended;
DROP INDEX writers_running;
DROP INDEX attempts_job;
DROP INDEX attempts_precedence;
