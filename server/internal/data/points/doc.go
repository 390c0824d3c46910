// Package points moves the points of a data folder into the store that several servers share, and
// back.
//
// In go two engines of which at most one is served; out comes what was copied. Either has all that
// was decided about a run: nothing is decided again.
//
// Invariants:
//   - The place that is filled tells what it has, by run: no note is kept apart. So a copy that was
//     cut goes on, and a later one copies what is new. Arrival numbers of a run rise, so new points
//     are those past the highest that the place knows.
//   - Points count at the new place when their count and their checksum were compared, of each
//     series. The two sides add up by different code: SQL over the table, and Go over the files.
//   - Memory holds heads of runs, one run's series, and a block of points.
//
// Start with [Out] and [Back].
package points
