package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// CodeSize is the size of a code in bytes.
const CodeSize = 16

// Code makes a code of parts for a purpose: only a holder of the key can make it. It shows a rack
// that central made a document, wherever the document has lain.
func (k *Key) Code(purpose string, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, k.raw)
	var length [binary.MaxVarintLen64]byte
	write := func(part []byte) {
		mac.Write(length[:binary.PutUvarint(length[:], uint64(len(part)))])
		mac.Write(part)
	}
	write([]byte("ironyard code " + purpose))
	for _, part := range parts {
		write(part)
	}
	return mac.Sum(nil)[:CodeSize]
}

// CodeFits reports whether code is that of the parts, under any generation of the key.
func (k *Key) CodeFits(code []byte, purpose string, parts ...[]byte) bool {
	fits := hmac.Equal(code, k.Code(purpose, parts...))
	for i := 0; !fits && i < len(k.older); i++ {
		fits = hmac.Equal(code, k.older[i].Code(purpose, parts...))
	}
	return fits
}
