// Package ingest is the only write path: it validates, authorises, limits,
// routes and stores what receivers decoded, and knows no protocol.
//
// A receiver calls [Service.Open] once per writer, then [Service.Append] with
// batches. The answer to an Append is an ack: what it covers is durable, points
// in the store and updates in the store's log and the catalog.
package ingest
