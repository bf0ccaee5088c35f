// Package wire is the form of the API on the wire: error bodies, request bodies
// and their limits, query arguments, names, links, pages and the JSON of answers.
//
// It knows no resource and imports the standard library, google/uuid, microversion, notation,
// protocol/jsontext and the names of secrets (protocol/seal) only. Everything here is safe for
// concurrent use; nothing keeps state.
package wire
