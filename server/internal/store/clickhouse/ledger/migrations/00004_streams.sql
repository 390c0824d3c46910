-- +goose Up
-- What one writer added to a series in one attempt, see curve.Tally. Written with the points.
CREATE TABLE ledger_streams (
	run         BYTEA NOT NULL,
	series      BIGINT NOT NULL,
	writer      BIGINT NOT NULL, -- its place
	attempt     BIGINT NOT NULL,
	count       BIGINT NOT NULL,
	rules       SMALLINT NOT NULL,
	some_axes   INTEGER NOT NULL,
	every_axes  INTEGER NOT NULL,
	low         BIGINT NOT NULL,
	high        BIGINT NOT NULL,
	min_time    BIGINT NOT NULL,
	max_time    BIGINT NOT NULL,
	again_from  BIGINT,
	again_to    BIGINT,
	end_step    BIGINT NOT NULL,
	end_time    BIGINT NOT NULL,
	end_seq     BIGINT NOT NULL,
	end_arrival BIGINT NOT NULL,
	value       BIGINT NOT NULL,
	PRIMARY KEY (run, series, writer, attempt)
) WITH (fillfactor = 60); -- rows change all the time, and stay in their page so

-- Series that are older have no streams: known is false, and reads look at their points. Of
-- those, plain says what it did, as long as nothing is added.
ALTER TABLE ledger_series ADD known BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE ledger_series ALTER plain SET DEFAULT FALSE, ALTER writer SET DEFAULT 0, ALTER attempt SET DEFAULT 0;

ALTER TABLE ledger_runs DROP top;
