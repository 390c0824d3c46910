package model

// Rendering is a video of one episode of one environment. Its bytes are the blob
// SHA256; where that is empty the process ended before a frame was kept, and the
// record says that the video is lost.
type Rendering struct {
	// ID is chosen by the client and unique in its run: WRITER-NUMBER. Recording
	// it again changes nothing but what the later record says.
	ID          string `json:"id"`
	Env         string `json:"env_id"`
	Episode     int64  `json:"episode"`
	Name        string `json:"name,omitempty"` // of one of several videos of an episode
	SHA256      string `json:"sha256,omitempty"`
	SizeBytes   int64  `json:"size_bytes"`
	ContentType string `json:"content_type,omitempty"`
	// Frames that the video holds; FramesDropped were logged and are not in it.
	Frames        int64   `json:"frames"`
	FramesDropped int64   `json:"frames_dropped,omitempty"`
	FPS           float64 `json:"fps"`
	Width         int64   `json:"width"`
	Height        int64   `json:"height"`
	FirstRLStep   int64   `json:"first_rl_step"`
	LastRLStep    int64   `json:"last_rl_step"`
	// Complete is false for what was saved of a process that ended in mid-episode.
	Complete bool     `json:"complete"`
	Tags     []string `json:"tags,omitempty"`
	// Marks are moments of the video that the client named.
	Marks  []RenderingMark `json:"marks,omitempty"`
	TimeNs int64           `json:"time_ns"` // of the first frame
}

// RenderingMark names frames of a video.
type RenderingMark struct {
	Name      string `json:"name"`
	FromFrame int64  `json:"from_frame"`
	ToFrame   int64  `json:"to_frame"`
}
