package command

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/central/sites/sitetest"
)

// envProgram makes the test binary central itself.
const envProgram = "IRONYARD_TEST_CENTRAL"

func TestMain(m *testing.M) {
	if os.Getenv(envProgram) != "" {
		Main()
		return
	}
	os.Exit(m.Run())
}

// program is central as a process of its own, with what it needs around it.
type program struct {
	t         *testing.T
	cmd       *exec.Cmd
	endpoint  string
	cert, key string // files
	token     string
	client    *http.Client
	// shown is the serial number of the certificate that the newest connection was shown.
	shown atomic.Int64
}

func startProgram(t *testing.T, bus string) *program {
	t.Helper()
	dir := t.TempDir()
	p := &program{t: t, cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")}
	p.certificate(1)
	issuer := p.issuer()
	keyFile := filepath.Join(dir, "fleet.key")
	out, err := os.Create(keyFile)
	if err == nil {
		err = (keyGenerate{}).Run(out)
		out.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.CommandContext(t.Context(), os.Args[0], "serve", "--database", "sqlite:"+filepath.Join(dir, "central.db"), "--bus", bus, "--key-file", keyFile,
		"--listen", "127.0.0.1:0", "--tls-cert", p.cert, "--tls-key", p.key, "--notification-level", "info", "--auth", "oidc", "--oidc-issuer", issuer,
		"--oidc-audience", "ironyard", "--oidc-roles-claim", "realm_access.roles", "--oidc-grant", "dc-admins=system:admin")
	p.cmd.Env = append(os.Environ(), envProgram+"=1")
	log, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := regexp.MustCompile(`msg="central is ready" endpoint=(\S+)`)
	lines := bufio.NewScanner(log)
	var said []string
	for p.endpoint == "" && lines.Scan() {
		said = append(said, lines.Text())
		if found := ready.FindStringSubmatch(lines.Text()); found != nil {
			p.endpoint = found[1]
		}
	}
	if p.endpoint == "" {
		t.Fatalf("central ended: %v, %v\n%s", lines.Err(), p.cmd.Wait(), strings.Join(said, "\n"))
	}
	go func() { // until its end, or it would wait for its reader
		for lines.Scan() {
		}
	}()
	p.client = &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, // its serial number is looked at instead
		VerifyConnection: func(s tls.ConnectionState) error {
			p.shown.Store(s.PeerCertificates[0].SerialNumber.Int64())
			return nil
		}}}}
	return p
}

// certificate writes a pair, as an operator's tool does: one file after the other.
func (p *program) certificate(serial int64) {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		p.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		p.t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{p.cert: {Type: "CERTIFICATE", Bytes: der}, p.key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

// issuer is an OpenID Connect issuer, which has given an administrator a token.
func (p *program) issuer() (url string) {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	p.t.Cleanup(srv.Close)
	answer := func(path string, body any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(body) })
	}
	answer("/.well-known/openid-configuration", map[string]any{"issuer": srv.URL, "jwks_uri": srv.URL + "/keys"})
	answer("/keys", jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.token, err = jwt.Signed(signer).Claims(map[string]any{"iss": srv.URL, "aud": "ironyard", "sub": "1", "preferred_username": "ann",
		"exp": time.Now().Add(time.Hour).Unix(), "realm_access": map[string]any{"roles": []string{"dc-admins"}}}).Serialize()
	if err != nil {
		p.t.Fatal(err)
	}
	return srv.URL
}

func (p *program) do(method, path, token, body string, headers ...string) *http.Response {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.endpoint+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.115")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	return res
}

// status sends a request over a connection of its own.
func (p *program) status(method, path, token, body string) int {
	p.t.Helper()
	p.client.CloseIdleConnections()
	res := p.do(method, path, token, body, "Connection", "close")
	res.Body.Close()
	return res.StatusCode
}

// Central as an operator runs it: tokens of an issuer, TLS whose certificate changes, events over
// HTTP/2 and on the bus; a hangup ends nothing, a request to end does.
func TestProgram(t *testing.T) {
	srv, _ := sitetest.Leaf(t, sitetest.Hub(t), "site", filepath.Join(t.TempDir(), "bus"))
	conn := sitetest.Dial(t, srv)
	defer conn.Close()
	heard, err := conn.SubscribeSync("NOTIFY.baremetal.chassis.create.end")
	if err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, srv.ClientURL())
	for token, want := range map[string]int{"": 401, p.token + "x": 401, p.token: 200} {
		if got := p.status("GET", "/v1/chassis", token, ""); got != want {
			t.Errorf("with the token %q: status %d, want %d", token, got, want)
		}
	}
	stream := p.do("GET", "/v1/notifications?event_type=baremetal.chassis.create.end", p.token, "", "Accept", "text/event-stream")
	defer stream.Body.Close()
	if stream.ProtoMajor != 2 || stream.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("the stream is %s by %s", stream.Header.Get("Content-Type"), stream.Proto)
	}
	events := bufio.NewScanner(stream.Body)
	p.told(events, heard, "11111111-2222-4333-8444-555555555555")

	p.certificate(2)
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); p.shown.Load() != 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the certificate shown is still %d", p.shown.Load())
		}
		p.status("GET", "/", "", "")
	}
	p.told(events, heard, "21111111-2222-4333-8444-555555555555") // by the stream of before

	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("central ended with %v", err)
	}
}

// told makes a chassis and reads of it in the stream and on the bus.
func (p *program) told(events *bufio.Scanner, heard *nats.Subscription, id string) {
	p.t.Helper()
	if got := p.status("POST", "/v1/chassis", p.token, `{"uuid":"`+id+`"}`); got != http.StatusCreated {
		p.t.Fatalf("create a chassis: status %d", got)
	}
	for text := ""; !strings.Contains(text, id); text = events.Text() {
		if !events.Scan() {
			p.t.Fatalf("the stream ended without %s: %v", id, events.Err())
		}
	}
	if m, err := heard.NextMsg(10 * time.Second); err != nil || !strings.Contains(string(m.Data), id) {
		p.t.Errorf("on the bus: %v, %v; want %s", m, err, id)
	}
}
