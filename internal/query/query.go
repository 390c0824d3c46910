// Package query is the only read path: it selects, pages, aligns and
// down-samples what the store and the catalog hold, and knows no protocol.
package query
