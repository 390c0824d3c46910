package ledger

// SeriesQuery is the query of series with their streams.
var SeriesQuery = seriesQuery
