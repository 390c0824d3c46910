// Package scrape logs what the nodes of a Bittensor subnet expose to Prometheus. In go
// targets that somebody finds anew for each round; out come runs, one a node and named
// after its hotkey, with a series for every sample, and up as 1 or 0.
//
// A target is run by a stranger. So what one may cost is bounded in time, bytes and
// samples, no redirect is followed, and a panic of the parser is an answer that is
// none. Start with Scraper.round; exposition.go takes an answer apart.
package scrape
