// Package jsontext reads and writes JSON values without reflection: the bodies of requests,
// the objects in rows and documents, the values in answers. Nearly all of them are short
// texts, numbers and objects of those; encoding/json spends most of its time on finding out
// what it has before it.
//
// It does the usual only. What it meets besides that it leaves to its caller, who asks
// encoding/json: so both agree, and a test compares them.
//
// It imports nothing of the project and keeps no state.
package jsontext
