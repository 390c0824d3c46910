package spool

// Pace is how a writer wants to be delivered: part of open.json, absent means
// the deliverer's own measures.
type Pace struct {
	// MaxPending is how many batches may wait for their acks.
	MaxPending int `json:"max_pending_requests,omitempty"`
	// BatchAgeMs is the longest that a record waits for company.
	BatchAgeMs int64 `json:"batch_max_age_ms,omitempty"`
	// MaxBytes is where a batch is full. One record is never cut.
	MaxBytes int `json:"max_msg_size,omitempty"`
	// Compression is none or zstd.
	Compression    string `json:"compression,omitempty"`
	FirstBackoffMs int64  `json:"retry_first_ms,omitempty"`
	LastBackoffMs  int64  `json:"retry_last_ms,omitempty"`
	// GiveUpAfter is how many tries in a row may fail before the oldest batch is
	// dropped and counted; absent: never. Changes of the run are never dropped.
	GiveUpAfter *uint64 `json:"give_up_after,omitempty"`
	// RenderingUploads is how many videos are uploaded at once.
	RenderingUploads int `json:"rendering_uploads,omitempty"`
}
