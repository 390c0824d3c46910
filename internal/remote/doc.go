// Package remote asks a server's HTTP API. In go an address, a key, a path with its
// query and, for writes, a document; out comes the answer as the server wrote it, or
// one error.
//
// It is where the text of these errors stands: the server's own refusal as a
// *model.Error, "cannot reach" for a server that does not answer, "no answer of
// Kymogram" for another program at that address. No redirect is followed, so the key
// goes to no host that the user did not name.
//
// Package read gives answers types and is public. The command line asks here for
// what it prints as the server wrote it, such as --json with fields that read does
// not know, and for writes, which read does not have. What both decode is here:
// [Buckets]. Start with Client.Send.
package remote
