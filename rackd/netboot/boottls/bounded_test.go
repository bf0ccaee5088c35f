package boottls

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slow is a key whose use takes a while, and counts how many use it at once.
type slow struct {
	crypto.Signer
	now, most atomic.Int64
}

func (s *slow) Sign(r io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	for n := s.now.Add(1); ; {
		most := s.most.Load()
		if n <= most || s.most.CompareAndSwap(most, n) {
			break
		}
	}
	defer s.now.Add(-1)
	time.Sleep(20 * time.Millisecond)
	return s.Signer.Sign(r, digest, o)
}

// Handshakes take half of the processors and no more, however many are begun.
func TestHandshakesLeaveProcessorsFree(t *testing.T) {
	f := names(t)
	issue(t, f, "127.0.0.1", 1, time.Now().Add(-time.Minute))
	c, err := Open(f, here, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	shown, err := c.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, bound := shown.PrivateKey.(signer)
	if !bound || cap(key.busy) != max(1, runtime.GOMAXPROCS(0)/2) {
		t.Fatalf("the key is a %T", shown.PrivateKey)
	}
	s := &slow{Signer: key.Signer}
	slowed := *shown
	slowed.PrivateKey = bounded(s, make(chan struct{}, 2))
	at := serve(t, &tls.Config{Certificates: []tls.Certificate{slowed}})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			conn, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
		})
	}
	all.Wait()
	if n := s.most.Load(); n == 0 || n > 2 {
		t.Errorf("%d handshakes used the key at once", n)
	}
}

// Only an RSA key decrypts: with another that claims to, no handshake ends.
func TestBoundedKeys(t *testing.T) {
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[crypto.PrivateKey]bool{r: true, e: false} {
		got := bounded(key, make(chan struct{}, 1))
		if _, decrypts := got.(crypto.Decrypter); decrypts != want {
			t.Errorf("%T becomes %T", key, got)
		}
	}
	secret, err := rsa.EncryptOAEP(sha256.New(), rand.Reader, &r.PublicKey, []byte("premaster"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := bounded(r, make(chan struct{}, 1)).(crypto.Decrypter).Decrypt(rand.Reader, secret, &rsa.OAEPOptions{Hash: crypto.SHA256}); err != nil || string(plain) != "premaster" {
		t.Errorf("%q, %v", plain, err)
	}
}
