// Package keys looks after API keys for the command line. In go what a person asks;
// out come keys as the HTTP API describes them, wherever they are kept: [Remote] is a
// running server, [Folder] the keyring of a data folder on this machine.
//
// A secret is in the answer to its creation only. Start with keys.go.
package keys
