// Package doctor looks for what is wrong between a training program and its server:
// the spool, its space and its agent, the server, its clock, the key, the store. In go
// addresses and the environment; out comes a list of findings, good ones too, each
// with what to do.
//
// Examine changes nothing. One check that fails keeps none of the others back, but what
// needs an answer of the server is asked only when the server answers, and its store
// only with a key that may read. All of it takes 5 s at most. Start with Examine.
package doctor
