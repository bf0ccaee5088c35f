// Package fields holds the table of what the API takes: for each field of each request the code that acts on it,
// the refusal, or why it is kept for clients alone. docs/fields.md is made of it.
//
// It has tests only, which may import all. The walk finds the fields in the code itself: in the description that a running
// server gives of its routes, in what the drivers of this build announce, and in the source. So a field without a row
// fails, as do a row without a field and a row whose reader does not mention its field. Every refusal is sent to
// a server with a rackd, both in this process.
package fields
