package boottls

import (
	"crypto"
	"crypto/rsa"
	"io"
)

// signer is a key that waits for a place before it is used. Each handshake uses it once, and an RSA key takes a processor for
// about a millisecond then.
type signer struct {
	crypto.Signer
	busy chan struct{}
}

// Sign implements crypto.Signer.
func (s signer) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	s.busy <- struct{}{} // those with a place work, and wait for no peer
	defer func() { <-s.busy }()
	return s.Signer.Sign(random, digest, opts)
}

// decrypter is a signer of RSA, which old firmware has decrypt too.
type decrypter struct {
	signer
	key crypto.Decrypter
}

// Decrypt implements crypto.Decrypter.
func (d decrypter) Decrypt(random io.Reader, text []byte, opts crypto.DecrypterOpts) ([]byte, error) {
	d.busy <- struct{}{}
	defer func() { <-d.busy }()
	return d.key.Decrypt(random, text, opts)
}

// bounded is a key that no more callers use at once than busy has places.
func bounded(key crypto.PrivateKey, busy chan struct{}) crypto.PrivateKey {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return decrypter{signer{k, busy}, k}
	case crypto.Signer:
		return signer{k, busy}
	}
	return key
}
