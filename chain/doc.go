// Package chain registers a node's Prometheus endpoint on the Bittensor chain and
// finds the endpoints of others: SubtensorModule.serve_prometheus, the record it
// leaves, and the lifecycle around it. The names follow Neural Internet's compute
// subnet (compute/axon.py, compute/prometheus.py).
//
//	node, err := chain.Dial(chain.Config{Endpoints: []string{"wss://entrypoint-finney.opentensor.ai:443"}})
//	wallet, err := chain.OpenWallet("", "default/miner1", nil)
//	ok := node.ServePrometheus(ctx, wallet, 9101, 27, false, true)
//	list, err := node.List(ctx, 27)
//
// Registering needs the hotkey only, and no fee. The chain keeps a record until it
// is overwritten or the neuron leaves the subnet: there is no call to withdraw it.
//
// Before a call is signed the chain's own record decides whether one is needed and
// whether the rate limit allows it; afterwards the record is read back. A refusal of
// the chain is a [RefusedError] and is not tried again; a broken connection is.
//
// To read the code, start at [Subtensor.PrometheusExtrinsic]; internal/substrate
// speaks with the node, internal/wallet signs.
package chain
