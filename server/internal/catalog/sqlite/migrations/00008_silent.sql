-- +goose Up
-- Writers of protocols that have no end are told by the beginning of their SDK;
-- silence says nothing of whether they are lost.
UPDATE writers SET sdk = 'receiver/' || sdk WHERE sdk IN ('influx', 'promwrite');
UPDATE runs SET status = 'silent' WHERE status = 'lost'
  AND EXISTS (SELECT 1 FROM writers w WHERE w.run = runs.id AND w.attempt = runs.attempt AND w.state = 'gone' AND w.sdk LIKE 'receiver/%')
  AND NOT EXISTS (SELECT 1 FROM writers w WHERE w.run = runs.id AND w.attempt = runs.attempt AND w.state = 'gone' AND w.sdk NOT LIKE 'receiver/%' AND w.sdk NOT LIKE 'system/%');

-- +goose Down
UPDATE runs SET status = 'lost' WHERE status = 'silent';
UPDATE writers SET sdk = substr(sdk, 10) WHERE sdk LIKE 'receiver/%';
