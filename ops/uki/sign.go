package uki

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"

	"golang.org/x/crypto/cryptobyte"
	der "golang.org/x/crypto/cryptobyte/asn1"
)

// Object identifiers of PKCS #7 (RFC 2315), PKCS #9 and Authenticode.
var (
	oidSignedData    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	oidContentType   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 3}
	oidMessageDigest = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}
	oidRSA           = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
	oidSHA256        = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
	oidIndirectData  = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 1, 4}
	oidPEImage       = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 1, 15}
)

// Signer signs programs with one key. Safe for concurrent use.
type Signer struct {
	key         *rsa.PrivateKey
	certificate *x509.Certificate
}

// minKeyBits is what firmware takes at least.
const minKeyBits = 2048

// NewSigner reads a private key (PKCS #8 or #1) and its certificate, both PEM. Errors never hold a part of the key.
func NewSigner(keyPEM, certificatePEM []byte) (*Signer, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, errors.New("the signing key is no PEM file")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("the signing key is a PEM block %q: give an unencrypted PRIVATE KEY", block.Type)
	}
	if err != nil {
		return nil, errors.New("the signing key cannot be read: give an unencrypted RSA key, PKCS #8 or PKCS #1")
	}
	private, ok := key.(*rsa.PrivateKey)
	if !ok || private.N.BitLen() < minKeyBits {
		return nil, fmt.Errorf("the signing key is no RSA key of %d bits or more, which is what UEFI firmware takes", minKeyBits)
	}
	if block, _ = pem.Decode(certificatePEM); block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the signing certificate is no PEM file with a CERTIFICATE")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the signing certificate: %w", err)
	}
	if public, ok := certificate.PublicKey.(*rsa.PublicKey); !ok || !public.Equal(&private.PublicKey) {
		return nil, errors.New("the signing certificate is of another key")
	}
	return &Signer{private, certificate}, nil
}

// securityEntry is WIN_CERTIFICATE's header: its length, revision 2.0, and PKCS #7 signed data.
const (
	securityHeader = 8
	revision       = 0x0200
	typePKCS7      = 0x0002
)

// Sign returns the program with a signature. A program that has one is refused.
func (s *Signer) Sign(raw []byte) ([]byte, error) {
	p, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("signing a program: %w", err)
	}
	if p.u32(offSecurity+4) != 0 {
		return nil, errors.New("signing a program: it has a signature")
	}
	out := append(bytes.Clone(raw), make([]byte, aligned(uint64(len(raw)), 8)-uint64(len(raw)))...)
	signature, err := s.signature(digest(out, p.pe))
	if err != nil {
		return nil, fmt.Errorf("signing a program: %w", err)
	}
	at, size := len(out), aligned(uint64(securityHeader+len(signature)), 8)
	out = le.AppendUint32(out, uint32(size))
	out = le.AppendUint16(out, revision)
	out = le.AppendUint16(out, typePKCS7)
	out = append(out, signature...)
	out = append(out, make([]byte, uint64(at)+size-uint64(len(out)))...)
	le.PutUint32(out[p.pe+offSecurity:], uint32(at))
	le.PutUint32(out[p.pe+offSecurity+4:], uint32(size))
	sum(out, p.pe+offChecksum)
	return out, nil
}

// digest is of all that a signature covers: not the checksum, and not where the signature is.
func digest(raw []byte, pe int) []byte {
	h := sha256.New()
	h.Write(raw[:pe+offChecksum])
	h.Write(raw[pe+offChecksum+4 : pe+offSecurity])
	h.Write(raw[pe+offSecurity+8:])
	return h.Sum(nil)
}

// signature is PKCS #7 signed data about a program's digest. It holds no time, so that it is the same each time.
func (s *Signer) signature(of []byte) ([]byte, error) {
	content, err := indirectData(of)
	if err != nil {
		return nil, err
	}
	// What is signed are the content's bytes without its outer tag and length.
	var inner cryptobyte.String
	if outer := cryptobyte.String(content); !outer.ReadASN1(&inner, der.SEQUENCE) {
		return nil, errors.New("the digest's structure cannot be read back")
	}
	inside := sha256.Sum256(inner)
	attributes, err := signedAttributes(inside[:])
	if err != nil {
		return nil, err
	}
	// A SET is what is signed; in the structure it has a tag of its own (RFC 2315, section 9.3).
	set := bytes.Clone(attributes)
	set[0] = byte(der.SET)
	hashed := sha256.Sum256(set)
	signed, err := rsa.SignPKCS1v15(nil, s.key, crypto.SHA256, hashed[:])
	if err != nil {
		return nil, err
	}
	var b cryptobyte.Builder
	sequence(&b, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(oidSignedData)
		tagged(b, 0, func(b *cryptobyte.Builder) {
			sequence(b, func(b *cryptobyte.Builder) {
				b.AddASN1Int64(1)
				b.AddASN1(der.SET, algorithm(oidSHA256))
				sequence(b, func(b *cryptobyte.Builder) {
					b.AddASN1ObjectIdentifier(oidIndirectData)
					tagged(b, 0, func(b *cryptobyte.Builder) { b.AddBytes(content) })
				})
				tagged(b, 0, func(b *cryptobyte.Builder) { b.AddBytes(s.certificate.Raw) })
				b.AddASN1(der.SET, func(b *cryptobyte.Builder) { s.signerInfo(b, attributes, signed) })
			})
		})
	})
	return b.Bytes()
}

func (s *Signer) signerInfo(b *cryptobyte.Builder, attributes, signed []byte) {
	sequence(b, func(b *cryptobyte.Builder) {
		b.AddASN1Int64(1)
		sequence(b, func(b *cryptobyte.Builder) {
			b.AddBytes(s.certificate.RawIssuer)
			b.AddASN1BigInt(s.certificate.SerialNumber)
		})
		algorithm(oidSHA256)(b)
		b.AddBytes(attributes)
		algorithm(oidRSA)(b)
		b.AddASN1OctetString(signed)
	})
}

// indirectData is what Authenticode signs of a program: what it is, and its digest.
func indirectData(of []byte) ([]byte, error) {
	var b cryptobyte.Builder
	sequence(&b, func(b *cryptobyte.Builder) {
		sequence(b, func(b *cryptobyte.Builder) {
			b.AddASN1ObjectIdentifier(oidPEImage)
			sequence(b, func(b *cryptobyte.Builder) {
				b.AddASN1(der.BIT_STRING, func(b *cryptobyte.Builder) { b.AddUint8(0) })
				// The name of a file, which is obsolete and empty.
				tagged(b, 0, func(b *cryptobyte.Builder) {
					tagged(b, 2, func(b *cryptobyte.Builder) {
						b.AddASN1(der.Tag(0).ContextSpecific(), func(*cryptobyte.Builder) {})
					})
				})
			})
		})
		sequence(b, func(b *cryptobyte.Builder) {
			algorithm(oidSHA256)(b)
			b.AddASN1OctetString(of)
		})
	})
	return b.Bytes()
}

// signedAttributes are in the order of their encodings, as DER has it for sets: the shorter one is first.
func signedAttributes(inside []byte) ([]byte, error) {
	var b cryptobyte.Builder
	tagged(&b, 0, func(b *cryptobyte.Builder) {
		attribute(b, oidContentType, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(oidIndirectData) })
		attribute(b, oidMessageDigest, func(b *cryptobyte.Builder) { b.AddASN1OctetString(inside) })
	})
	return b.Bytes()
}

func attribute(b *cryptobyte.Builder, id asn1.ObjectIdentifier, value cryptobyte.BuilderContinuation) {
	sequence(b, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(id)
		b.AddASN1(der.SET, value)
	})
}

func algorithm(id asn1.ObjectIdentifier) cryptobyte.BuilderContinuation {
	return func(b *cryptobyte.Builder) {
		sequence(b, func(b *cryptobyte.Builder) {
			b.AddASN1ObjectIdentifier(id)
			b.AddASN1NULL()
		})
	}
}

func sequence(b *cryptobyte.Builder, inside cryptobyte.BuilderContinuation) {
	b.AddASN1(der.SEQUENCE, inside)
}

func tagged(b *cryptobyte.Builder, number uint8, inside cryptobyte.BuilderContinuation) {
	b.AddASN1(der.Tag(number).ContextSpecific().Constructed(), inside)
}
