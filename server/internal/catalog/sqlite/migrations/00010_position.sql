-- +goose Up
-- The last change that this database shares with its mirror (docs/format/mirror.md).
CREATE TABLE position (
  id    INTEGER PRIMARY KEY CHECK (id = 0),
  lsn   INTEGER NOT NULL,
  chain INTEGER NOT NULL
) STRICT;
INSERT INTO position (id, lsn, chain) VALUES (0, 0, 0);

-- +goose Down
DROP TABLE position;
