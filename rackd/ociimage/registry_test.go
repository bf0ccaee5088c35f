package ociimage

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program returns a foreign program. IRONYARD_E2E says that the machine has all that the tests need.
func program(t *testing.T, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skipf("no %s (Debian package %s); IRONYARD_E2E=1 makes that an error", name, debian)
	}
	t.Fatalf("no %s (Debian package %s)", name, debian)
	return ""
}

// distribution is Debian's docker-registry, the real one of the CNCF.
type distribution struct {
	host   string
	client *http.Client
	token  string // for pushes
	secure bool   // it speaks TLS
}

const (
	user     = "Aladdin"
	password = "open:sesame"
)

var basic = "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))

// start runs the registry with an access section of its configuration, over TLS where cert is given.
func start(t *testing.T, access string, cert *tls.Certificate) *distribution {
	t.Helper()
	bin := program(t, "docker-registry", "docker-registry")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &distribution{host: l.Addr().String(), client: &http.Client{Transport: &http.Transport{}}, secure: cert != nil}
	l.Close()
	t.Cleanup(d.client.CloseIdleConnections)
	dir := t.TempDir()
	config := fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %s}}\n%shttp:\n  addr: %s\n", filepath.Join(dir, "store"), access, d.host)
	if cert != nil {
		key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "cert"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
		write(t, filepath.Join(dir, "key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
		config += fmt.Sprintf("  tls: {certificate: %s, key: %s}\n", filepath.Join(dir, "cert"), filepath.Join(dir, "key"))
		pool := x509.NewCertPool()
		pool.AddCert(cert.Leaf)
		d.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	write(t, filepath.Join(dir, "config.yml"), []byte(config))
	cmd := exec.Command(bin, "serve", filepath.Join(dir, "config.yml"))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &said, &said, dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("the registry said: %s", said.String())
		}
	})
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", d.host)
		if err == nil {
			c.Close()
			return d
		}
		if time.Now().After(deadline) {
			t.Fatalf("the registry does not start: %v", err)
		}
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (d *distribution) scheme() string {
	if d.secure {
		return "https"
	}
	return "http"
}

// send makes one request of a push, and returns the header of its answer.
func (d *distribution) send(t *testing.T, method, url, kind string, body []byte) http.Header {
	t.Helper()
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	if d.token != "" {
		req.Header.Set("Authorization", d.token)
	}
	res, err := d.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s: %s", method, url, res.Status, text)
	}
	return res.Header
}

func digestOf(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// blob pushes a file and returns its descriptor.
func (d *distribution) blob(t *testing.T, repo, kind string, b []byte) map[string]any {
	t.Helper()
	base := d.scheme() + "://" + d.host
	at := d.send(t, "POST", base+"/v2/"+repo+"/blobs/uploads/", "", nil).Get("Location")
	if strings.HasPrefix(at, "/") {
		at = base + at
	}
	sep := "?"
	if strings.Contains(at, "?") {
		sep = "&"
	}
	d.send(t, "PUT", at+sep+"digest="+digestOf(b), "application/octet-stream", b)
	return map[string]any{"mediaType": kind, "digest": digestOf(b), "size": len(b)}
}

// manifest pushes a document under a tag and returns its descriptor.
func (d *distribution) manifest(t *testing.T, repo, tag string, m map[string]any) map[string]any {
	t.Helper()
	m["schemaVersion"] = 2
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if tag == "" {
		tag = digestOf(text)
	}
	kind, _ := m["mediaType"].(string)
	d.send(t, "PUT", d.scheme()+"://"+d.host+"/v2/"+repo+"/manifests/"+tag, kind, text)
	return map[string]any{"mediaType": kind, "digest": digestOf(text), "size": len(text)}
}

// artifact pushes a file as `oras push` does.
func (d *distribution) artifact(t *testing.T, repo, tag string, b []byte, notes map[string]any) map[string]any {
	t.Helper()
	config := d.blob(t, repo, "application/vnd.oci.empty.v1+json", []byte("{}"))
	layer := d.blob(t, repo, "application/vnd.oci.image.layer.v1.tar", b)
	layer["annotations"] = map[string]any{titleNote: "disk.img"}
	return d.manifest(t, repo, tag, map[string]any{"mediaType": manifestType, "config": config, "layers": []any{layer}, "annotations": notes})
}

// with returns a descriptor with members added.
func with(of map[string]any, more map[string]any) map[string]any {
	for k, v := range more {
		of[k] = v
	}
	return of
}

func (d *distribution) ours() *Client { return &Client{HTTP: d.client, Plain: []string{d.host}} }

// anywhere is the access of a user who has named the registry: all hosts may be shown it.
func anywhere(authorization string) Access {
	return Access{Authorization: authorization, InTheClear: AnyHost}
}

// get resolves an address, opens what it means, and returns the content, which has the promised checksum.
func get(t *testing.T, c *Client, address, arch string, access Access) (string, error) {
	t.Helper()
	b, err := c.Resolve(t.Context(), address, arch, access)
	if err != nil {
		return "", err
	}
	body, size, err := c.Open(t.Context(), b.URL, access)
	if err != nil {
		return "", err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil || int64(len(text)) != size || digestOf(text) != b.Algorithm+":"+b.Checksum {
		t.Errorf("%s: %d bytes of %d, %v", address, len(text), size, err)
	}
	return string(text), nil
}

func TestRegistry(t *testing.T) {
	d := start(t, "", nil)
	at := "oci://" + d.host + "/site/os"
	plain := d.artifact(t, "site/os", "latest", []byte("the newest"), nil)
	d.artifact(t, "site/os", "12", []byte("twelve"), map[string]any{diskNote: "raw"})
	member := func(file, arch, kind string) map[string]any {
		m := with(d.artifact(t, "site/os", "", []byte(file), nil), map[string]any{"platform": map[string]any{"architecture": arch, "os": "linux"}})
		if kind != "" {
			m["annotations"] = map[string]any{diskNote: kind}
		}
		return m
	}
	index := d.manifest(t, "site/os", "many", map[string]any{"mediaType": indexType, "manifests": []any{
		member("untyped", "x86_64", ""), member("hyperv", "x86_64", "hyperv"), member("raw amd64", "amd64", "raw"), member("qcow2 amd64", "amd64", "qcow2"), member("raw arm64", "arm64", "raw")}})
	for address, c := range map[string]struct{ arch, want string }{
		at:                                   {"", "the newest"},
		at + ":latest":                       {"", "the newest"},
		at + ":12":                           {"x86_64", "twelve"},
		at + "@" + plain["digest"].(string):  {"", "the newest"},
		at + ":@" + plain["digest"].(string): {"", "the newest"},
		at + ":many":                         {"x86_64", "qcow2 amd64"},
		at + "@" + index["digest"].(string):  {"aarch64", "raw arm64"},
	} {
		if got, err := get(t, d.ours(), address, c.arch, Access{}); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", address, got, err, c.want)
		}
	}

	layer := d.blob(t, "site/os", "application/vnd.oci.image.layer.v1.tar+gzip", []byte("layer"))
	config := d.blob(t, "site/os", containerType, []byte(`{"rootfs":{}}`))
	d.manifest(t, "site/os", "container", map[string]any{"mediaType": manifestType, "config": config, "layers": []any{layer}})
	d.manifest(t, "site/os", "two", map[string]any{"mediaType": manifestType, "artifactType": "a/b", "config": config, "layers": []any{layer, layer}})
	for address, c := range map[string]struct {
		arch, words string
		kind        error
	}{
		at + ":container":                       {"", "container's image", ErrReference},
		at + ":two":                             {"", "Expected 1 layer, found 2 layers", ErrReference},
		at + ":many":                            {"riscv64", "riscv64", ErrReference},
		at + ":none":                            {"", "has no site/os:none", ErrRefused},
		"oci://" + d.host + "/nobody":           {"", "nobody", ErrRefused},
		at + "@sha256:12":                       {"", "give oci://", ErrReference},
		"oci://u:secret@" + d.host + "/site/os": {"", "no user", ErrReference},
		"oci://" + d.host + "/../x":             {"", "give oci://", ErrReference},
	} {
		if _, err := get(t, d.ours(), address, c.arch, Access{}); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: %v, want %q", address, err, c.words)
		}
	}
	// Without a word of the operator, no registry is spoken to without TLS.
	if _, err := (&Client{HTTP: d.client}).Resolve(t.Context(), at, "", Access{}); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("in the clear: %v", err)
	}
}

// certificate returns one for 127.0.0.1 that signs itself.
func certificate(t *testing.T) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "registry"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// A registry that asks for a user and a password, over TLS.
func TestRegistryWithAPassword(t *testing.T) {
	// The registry reads bcrypt alone; this hash is by crypt(3).
	file := filepath.Join(t.TempDir(), "htpasswd")
	write(t, file, []byte(user+":$2b$04$abcdefghijklmnopqrstuu2GbQLdjwBFdH8CcOE866nGziodmvO8K\n"))
	d := start(t, fmt.Sprintf("auth: {htpasswd: {realm: r, path: %s}}\n", file), certificate(t))
	d.token = basic
	d.artifact(t, "os", "latest", []byte("private"), nil)
	c, at := &Client{HTTP: d.client}, "oci://"+d.host+"/os"
	if got, err := get(t, c, at, "", Access{Authorization: basic}); err != nil || got != "private" {
		t.Errorf("%q, %v", got, err)
	}
	for name, authorization := range map[string]string{"none": "", "a wrong one": "Basic " + base64.StdEncoding.EncodeToString([]byte("Aladdin:wrong-one")), "a token": "Bearer wrong-one"} {
		if _, err := get(t, c, at, "", Access{Authorization: authorization}); !errors.Is(err, ErrRefused) || strings.Contains(err.Error(), "wrong-one") || !strings.Contains(err.Error(), "image_pull_secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A registry that sends its clients to a token server, which knows the password.
func TestRegistryWithTokens(t *testing.T) {
	cert := certificate(t)
	bundle := filepath.Join(t.TempDir(), "bundle")
	write(t, bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
	var asked int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"token": token(t, cert, r.URL.Query().Get("scope"))})
	}))
	t.Cleanup(server.Close)
	d := start(t, fmt.Sprintf("auth: {token: {realm: %q, service: registry, issuer: issuer, rootcertbundle: %s}}\n", server.URL, bundle), nil)
	d.token = "Bearer " + token(t, cert, "repository:os:push,pull")
	d.artifact(t, "os", "latest", []byte("by token"), nil)
	at := "oci://" + d.host + "/os"
	if got, err := get(t, d.ours(), at, "", anywhere(basic)); err != nil || got != "by token" || asked == 0 {
		t.Errorf("%q, %v, asked %d times", got, err, asked)
	}
	asked = 0
	if got, err := get(t, d.ours(), at, "", anywhere(d.token)); err != nil || got != "by token" || asked != 0 {
		t.Errorf("with a token: %q, %v, the token server was asked %d times", got, err, asked)
	}
	if _, err := get(t, d.ours(), at, "", anywhere("Basic "+base64.StdEncoding.EncodeToString([]byte("Aladdin:wrong-one")))); !errors.Is(err, ErrRefused) || strings.Contains(err.Error(), "wrong-one") {
		t.Errorf("a wrong password: %v", err)
	}
}

// token is what a token server gives for a scope: signed by the certificate that the registry trusts.
func token(t *testing.T, cert *tls.Certificate, scope string) string {
	t.Helper()
	part := strings.Split(scope, ":")
	if len(part) != 3 {
		t.Errorf("scope %q", scope)
		return ""
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: cert.PrivateKey},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("x5c", []string{base64.StdEncoding.EncodeToString(cert.Certificate[0])}))
	if err != nil {
		t.Error(err)
		return ""
	}
	now := time.Now().Unix()
	claims, err := json.Marshal(map[string]any{"iss": "issuer", "sub": user, "aud": "registry", "iat": now - 60, "nbf": now - 60, "exp": now + 3600, "jti": "1",
		"access": []any{map[string]any{"type": part[0], "name": part[1], "actions": strings.Split(part[2], ",")}}})
	if err != nil {
		t.Error(err)
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		t.Error(err)
		return ""
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Error(err)
	}
	return text
}

// A registry that lies: another manifest than the one whose digest was asked for, one that does not end, and one that leads
// credentials elsewhere.
func TestRegistryThatLies(t *testing.T) {
	asked := strings.Repeat("ab", 32)
	var elsewhere string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { elsewhere += r.Header.Get("Authorization") }))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", manifestType)
		switch {
		case strings.HasSuffix(r.URL.Path, asked):
			io.WriteString(w, `{"layers":[{"digest":"sha256:`+asked+`"}]}`)
		case strings.HasSuffix(r.URL.Path, "large"):
			w.Header().Set("Docker-Content-Digest", "sha256:"+asked)
			w.Header().Set("Content-Length", "1000000000")
			io.WriteString(w, "{")
		case strings.HasSuffix(r.URL.Path, "size"):
			io.WriteString(w, `{"layers":[{"digest":"sha256:`+asked+`","size":-5}]}`)
		case strings.HasSuffix(r.URL.Path, "nodigest"):
			io.WriteString(w, `{"layers":[{"digest":"../../../x"}]}`)
		case r.Header.Get("Authorization") == "":
			w.Header().Set("WWW-Authenticate", "Basic realm=r")
			w.WriteHeader(http.StatusUnauthorized)
		default:
			http.Redirect(w, r, other.URL+"/?signature=s3cret", http.StatusFound)
		}
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	c := &Client{HTTP: &http.Client{Transport: tr}, Plain: []string{host}}
	for tag, words := range map[string]string{"@sha256:" + asked: "gives something else for os:sha256:", ":size": "has -5 bytes", ":large": "1000000000", ":nodigest": "digest"} {
		_, err := c.Resolve(t.Context(), "oci://"+host+"/os"+tag, "", Access{})
		if !errors.Is(err, ErrRefused) && !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want a refusal that says %q", tag, err, words)
		}
	}
	if _, err := c.Resolve(t.Context(), "oci://"+host+"/os:away", "", anywhere(basic)); err == nil || elsewhere != "" || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v; another server was sent %q", err, elsewhere)
	}
}
