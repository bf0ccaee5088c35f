// Package boottls is the TLS with which rackd serves the boot web to firmware: an operator's certificate and key, read again when the
// files change.
//
// It may import protocol/secretfile. Firmware has no client certificates, and what it loads is open to each host
// (rackd/netboot): TLS shows a machine that it talks to its rack. Any host may begin a handshake: all
// of them keep half of the processors free. Invariants: a certificate that does not name each of rackd's addresses is
// refused at the start, because firmware compares the two; a later file that cannot be used changes nothing, and the log says so.
package boottls

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/protocol/secretfile"
)

// suites are those of TLS 1.2. The last four have no forward secrecy. Firmware before EDK2 of 2023 knows no elliptic curves, and Go
// has no other key exchange in common with it. What it loads is no secret.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	tls.TLS_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_RSA_WITH_AES_128_CBC_SHA256, tls.TLS_RSA_WITH_AES_256_CBC_SHA,
}

// Files names the certificate, with those that it stands on after it, and its key, in PEM.
type Files struct{ Certificate, Key string }

// keeper holds the certificate that is shown now.
type keeper struct {
	files     Files
	addresses []netip.Addr
	log       *slog.Logger

	busy chan struct{} // as many places as processors may be at work with the key

	mu     sync.Mutex
	shown  *tls.Certificate
	read   [2]time.Time // when the files had changed last
	failed [2]time.Time // the same, of files that could not be used
	ending rate.Sometimes
}

// A certificate that ends within soon is warned of, once for each warnEvery in which firmware asks.
const (
	soon      = 30 * 24 * time.Hour
	warnEvery = 24 * time.Hour
)

// Open reads the files and returns a configuration for a server at some addresses. It fails where they do not fit each other or the
// addresses. The configuration is safe for concurrent use.
func Open(f Files, addresses []netip.Addr, log *slog.Logger) (*tls.Config, error) {
	k := &keeper{files: f, addresses: addresses, log: log, busy: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), ending: rate.Sometimes{Interval: warnEvery}}
	secretfile.Check(f.Key, log)
	at := k.changed() // before they are read: a change meanwhile is one
	c, err := k.load()
	if err != nil {
		return nil, err
	}
	k.shown, k.read = c, at
	k.warn()
	if c.Leaf.PublicKeyAlgorithm != x509.RSA {
		log.Info("the certificate for firmware has no RSA key: firmware without elliptic curves, such as EDK2 before 2023, will not load anything with it", "file", f.Certificate)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: suites, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return k.now(), nil }}, nil
}

// load reads the files.
func (k *keeper) load() (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(k.files.Certificate, k.files.Key)
	if err != nil {
		return nil, fmt.Errorf("the certificate for firmware: %w", err)
	}
	for _, a := range k.addresses {
		if err := c.Leaf.VerifyHostname(a.String()); err != nil {
			return nil, fmt.Errorf("the certificate for firmware, %s: firmware compares it with the address that it is told: give it the alternative name IP:%s: %w", k.files.Certificate, a, err)
		}
	}
	c.PrivateKey = bounded(c.PrivateKey, k.busy)
	return &c, nil
}

// changed says when the files were changed last; zero for one that is not there.
func (k *keeper) changed() (at [2]time.Time) {
	for i, path := range []string{k.files.Certificate, k.files.Key} {
		if info, err := os.Stat(path); err == nil {
			at[i] = info.ModTime()
		}
	}
	return at
}

// warn says now and then that the certificate ends. Its caller holds mu, or has the keeper alone.
func (k *keeper) warn() {
	if time.Until(k.shown.Leaf.NotAfter) >= soon {
		return
	}
	k.ending.Do(func() {
		k.log.Warn("the certificate for firmware ends soon, or has ended", "file", k.files.Certificate, "ends", k.shown.Leaf.NotAfter, "do", "renew it in place: rackd reads it again")
	})
}

// now returns the certificate to show, of the files as they are.
func (k *keeper) now() *tls.Certificate {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.warn()
	at := k.changed()
	if at == k.read || at == k.failed {
		return k.shown
	}
	c, err := k.load()
	if err != nil { // one of two files may be written before the other
		k.failed = at
		k.log.Warn("the changed certificate for firmware cannot be used, the one before stays", "error", err)
		return k.shown
	}
	k.shown, k.read = c, at
	k.log.Info("the certificate for firmware has changed, and is in use", "file", k.files.Certificate, "ends", c.Leaf.NotAfter)
	return k.shown
}
