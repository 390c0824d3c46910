// Package curve reads the points of runs that lie in ClickHouse: which points a curve has,
// pages of them, buckets, and where series end.
//
// A [Source] tells what counts: which batches are committed, which attempts a run has, which
// series. The points lie in one table (schema.go) together with rows of batches that were never
// committed; every read leaves those out.
//
// All rules are applied by ClickHouse, with SQL that its version 18.16 takes; what comes over the
// wire is bounded by the page or the number of buckets. Start with resolve.go, which builds the
// query of a curve. scan.go, buckets.go and describe.go ask something of it.
package curve
