package membership

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/nats-io/nkeys"

	"github.com/ironyard/ironyard/protocol/join"
)

// keys are what a joiner makes and never sends.
type keys struct {
	TLS  string `json:"tls"`  // PEM
	User string `json:"user"` // seed of a NATS user key
	// Route is a server's key for the others of its cluster, PEM.
	Route string `json:"route,omitempty"`
}

func newKeys() (keys, error) {
	text, err := newTLSKey()
	if err != nil {
		return keys{}, err
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return keys{}, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return keys{}, err
	}
	route, err := newTLSKey()
	return keys{TLS: text, User: string(seed), Route: route}, err
}

func newTLSKey() (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), err
}

// readKey finds the private key in PEM text.
func readKey(text string) (*ecdsa.PrivateKey, error) {
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("no private key")
		}
		if block.Type != "PRIVATE KEY" {
			continue
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		own, ok := key.(*ecdsa.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("a private key of type %T", key)
		}
		return own, nil
	}
}

// csr asks for a certificate of the key in text.
func csr(text string) (string, error) {
	key, err := readKey(text)
	if err != nil {
		return "", err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), err
}

// request fills in the public halves.
func (k keys) request(r *join.Request) (err error) {
	if r.CSR, err = csr(k.TLS); err != nil {
		return err
	}
	if k.Route != "" { // a joining that an older program began has none
		if r.RouteCSR, err = csr(k.Route); err != nil {
			return err
		}
	}
	pair, err := nkeys.FromSeed([]byte(k.User))
	if err != nil {
		return err
	}
	r.UserKey, err = pair.PublicKey()
	return err
}

// sign signs a renewal with the present key.
func sign(identity string, r *join.Renewal) error {
	key, err := readKey(identity)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(r.Statement())
	signature, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	r.Signature = base64.StdEncoding.EncodeToString(signature)
	return err
}

// certificateIn returns the first certificate in PEM text.
func certificateIn(text string) (string, *x509.Certificate, error) {
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return "", nil, errors.New("no certificate")
		}
		if block.Type == "CERTIFICATE" {
			c, err := x509.ParseCertificate(block.Bytes)
			return string(pem.EncodeToMemory(block)), c, err
		}
	}
}
