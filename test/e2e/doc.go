// Package e2e drives the real binary, the real Python package and a real browser
// as processes, the way a person does. `make test-e2e` builds what it needs;
// screenshots go to test-results/.
package e2e
