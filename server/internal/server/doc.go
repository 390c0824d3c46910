// Package server is the shell around everything that listens: one address for
// HTTP and gRPC, TLS, the policy that every route and every method must have,
// limits, health and the graceful stop. It mounts what httpapi and the receivers
// serve and knows neither a store nor a catalog.
package server
