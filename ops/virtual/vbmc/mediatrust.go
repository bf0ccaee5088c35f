package vbmc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// trust is how a virtual drive verifies the server of an image.
type trust struct {
	verify bool
	all    [][]byte // certificates, DER
}

// handshakeWithin bounds the handshake by which a server is verified.
const handshakeWithin = 10 * time.Second

// verifies reports whether the drives can verify the certificate of an image's server.
func (b *BMC) verifies() bool { return b.cfg.Dial != nil }

func (b *BMC) trustOf(s slot) trust {
	b.mediumMu.Lock()
	defer b.mediumMu.Unlock()
	return b.trusts[s.path]
}

// showTrust adds what is shown of it to a drive.
func (b *BMC) showTrust(s slot, o object) object {
	if b.verifies() {
		o["VerifyCertificate"], o["Certificates"] = b.trustOf(s).verify, link(s.path+"/Certificates")
	}
	return o
}

// untrusted is why the server of an image is not trusted; nil: it is, or need not be.
func (b *BMC) untrusted(ctx context.Context, s slot, image string) error {
	t := b.trustOf(s)
	u, err := url.Parse(image)
	if err != nil || u.Scheme != "https" || !t.verify {
		return err
	}
	roots := x509.NewCertPool()
	for _, der := range t.all {
		if c, err := x509.ParseCertificate(der); err == nil {
			roots.AddCert(c)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
	defer cancel()
	port := u.Port()
	if port == "" {
		port = "443"
	}
	conn, err := b.cfg.Dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return err
	}
	defer conn.Close()
	return tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}).HandshakeContext(ctx)
}

// patchTrust changes whether a drive verifies.
func (s slot) patchTrust(b *BMC, w http.ResponseWriter, r *http.Request) {
	if !b.verifies() {
		notFound(w, r)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.trustOf(s)
	shown := object{"VerifyCertificate": t.verify}
	body := names{}
	if !decode(w, r, &body) {
		return
	}
	if e := body.into("", shown, map[string]any{"VerifyCertificate": &t.verify}); e != nil {
		e.write(w)
		return
	}
	if !b.deafTrust {
		b.setTrust(s, t)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (b *BMC) setTrust(s slot, t trust) {
	b.mediumMu.Lock()
	defer b.mediumMu.Unlock()
	if b.trusts == nil {
		b.trusts = map[string]trust{}
	}
	b.trusts[s.path] = t
}

func (s slot) listTrust(b *BMC, w http.ResponseWriter, r *http.Request) {
	if !b.verifies() {
		notFound(w, r)
		return
	}
	var members []string
	for i := range b.trustOf(s).all {
		members = append(members, s.path+"/Certificates/"+strconv.Itoa(i+1))
	}
	write(w, http.StatusOK, collection(s.path+"/Certificates", "CertificateCollection", "Certificates of servers of images", members...))
}

func (s slot) showTrusted(b *BMC, w http.ResponseWriter, r *http.Request) {
	all := b.trustOf(s).all
	n, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || n < 1 || n > len(all) {
		notFound(w, r)
		return
	}
	write(w, http.StatusOK, s.trusted(n-1, all[n-1]))
}

func (s slot) trusted(i int, der []byte) object {
	return resource(s.path+"/Certificates/"+strconv.Itoa(i+1), "Certificate.v1_2_0.Certificate", strconv.Itoa(i+1), "Certificate", object{
		"CertificateType": "PEM", "CertificateString": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))})
}

// addTrusted takes a certificate in PEM.
func (s slot) addTrusted(b *BMC, w http.ResponseWriter, r *http.Request) {
	if !b.verifies() {
		notFound(w, r)
		return
	}
	body, ok := decodeAction(w, r)
	if !ok {
		return
	}
	var text, kind string
	if e := body.parameters("create a certificate", map[string]any{"CertificateString": &text, "CertificateType": &kind}, "CertificateString", "CertificateType"); e != nil {
		e.write(w)
		return
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" || strings.TrimSpace(string(rest)) != "" || kind != "PEM" {
		refusal{http.StatusBadRequest, "PropertyValueFormatError", "CertificateString is not one certificate in PEM."}.write(w)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.trustOf(s)
	t.all = append(slices.Clip(t.all), block.Bytes)
	b.setTrust(s, t)
	at := len(t.all) - 1
	w.Header().Set("Location", s.path+"/Certificates/"+strconv.Itoa(at+1))
	write(w, http.StatusCreated, s.trusted(at, block.Bytes))
}
