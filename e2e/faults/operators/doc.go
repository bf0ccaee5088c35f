// Package operators are the people of a fault test: they send requests to central's
// API while everything around them breaks, and write down what they asked for and what
// they were answered.
//
// It may import protocol/provision. Invariants: a request is sent once and its outcome
// noted as accepted, refused or unknown, because an answer that did not arrive says
// nothing; reading is repeated until somebody answers.
package operators
