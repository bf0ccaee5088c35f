// Package packed writes JSON values in few bytes: what a rack is told of a node is sent
// over a WAN, lies in the bus's files, is read from there whenever it is replaced, and is
// held by every rackd of the group.
//
// Texts that most documents hold are numbers of a table (words.go); UUIDs, MAC addresses,
// checksums in hexadecimal and sealed secrets are the bytes that they stand for; the rest is
// as it is, behind its length. A value tells its own length, so readers skip what they do
// not know. Objects are in the order of their names: the same value is always the same bytes.
//
// A value comes back as encoding/json reads it into an any, but that a number beyond
// float64 stays a json.Number. It imports protocol/seal for what begins a sealed secret, and
// keeps no state.
package packed

// What begins a value. The ranges below hold a small value themselves.
const (
	tagNil    = 0x00
	tagFalse  = 0x01
	tagTrue   = 0x02
	tagInt    = 0x03 // zigzag, as encoding/binary writes it
	tagFloat  = 0x04 // eight bytes, the lowest first
	tagNumber = 0x05 // as it is written in JSON: length, text
	tagText   = 0x06 // length, text
	tagWord   = 0x07 // number in the table, less shortWords
	tagList   = 0x08 // count, values
	tagObject = 0x09 // count; of each member its name, a text, and its value
	tagUUID   = 0x0a // 16 bytes
	tagHex    = 0x0b // length in bytes, bytes
	tagSealed = 0x0c // length in bytes, what a secret is sealed to
	tagMAC    = 0x0d // 6 bytes

	firstInt  = 0x10 // … 0x3f: numbers from 0 on
	firstText = 0x40 // … 0x7f: texts by length
	firstWord = 0x80 // … 0xff: the first of the words

	shortInts  = firstText - firstInt
	shortTexts = firstWord - firstText
	shortWords = 0x100 - firstWord
)

// maxDepth is how deep lists and objects may lie in each other; the API takes less.
const maxDepth = 512
