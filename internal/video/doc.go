// Package video turns frames into videos that lie in the spool: H.264 in mp4,
// encoded by an ffmpeg process for each episode of an environment.
//
//	LogRendering        Run                    ffmpeg            spool
//	Put ──▶ queue ──▶ take: begin, write ──▶ N.part ────┐
//	Tag, Mark ─┘      next episode: finish ◀──────────┘ N.mp4, N.json
//
// Frames and labels go in from any goroutine and never wait: a frame for which the
// queue has no room is dropped and counted. One goroutine ([Renderer.Run]) starts
// and feeds the encoders. What holds:
//   - Every frame that was added is encoded, dropped or waits; the counts say which.
//   - While a video grows its file is playable up to the last second, so that
//     internal/uplink makes a video of what a SIGKILL left.
//   - A record (N.json) that says done names a file that is whole, with its hash.
//   - An encoder that fails costs a part of the episode; after three, the rest of it.
//
// Start at [Renderer.Run]. The Python package encodes in its own process with PyAV;
// testdata/client/encoder.json holds what both must set.
package video
