package attack

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/ironyard/ironyard/central/auth/issuertest"
	"github.com/ironyard/ironyard/e2e/faults/network"
	"github.com/ironyard/ironyard/e2e/faults/process"
	"github.com/ironyard/ironyard/e2e/faults/topology"
)

// yard is what is attacked: a central with its API, a hub, a site with two groups of
// which one stands in for the other, and machines. All are built programs that have
// joined with tokens, each on a host of its own.
type yard struct {
	dir      string
	programs topology.Programs
	ironyard string
	floor    *network.Switch
	hosts    map[string]*network.Host
	central  *process.Process
	hub, bus *process.Process
	rackds   map[string]*process.Process
	machines []*machine
	issuer   *issuertest.Issuer
	images   *imageServer

	operator *caller
	stranger *caller
	mu       sync.Mutex
	next     int // machine that no attack has used
	ends     []func()
}

const (
	siteName                 = "lab"
	groupA                   = "rack-a" // the thief's
	groupB                   = "rack-b" // stands in for groupA
	groupC                   = "rack-c" // of the site far
	groupD                   = "rack-d" // of rackd-d
	farSite                  = "far"    // whose server is stolen
	thief                    = "thief"
	maxSlots                 = 100 // requests that central works on at once
	basicUser, basicPassword = "ops", "a password that is not guessed"

	htpasswdCost = 5 // of `htpasswd -B`

	apiPort, enrolPort = 6385, 6387
	agentDoorPort      = 6386
	agentPort          = 9999
	observePort        = 9411
	webPort            = 8080
)

// Hosts of the yard and their addresses.
var addresses = map[string]string{"hub": "10.77.0.11", "bus": "10.77.0.12", "central": "10.77.0.21", "operator": "10.77.0.100",
	"far-1": "10.77.0.13", "far-2": "10.77.1.68",
	"rackd-a": "10.77.1.21", "rackd-b": "10.77.1.22", "rackd-c": "10.77.1.23", "rackd-d": "10.77.1.24", "stranger": "10.77.1.66", "stranger2": "10.77.1.67"}

// machineHosts is how many machines there are; every one has a host of its own.
const machineHosts = 24

var shared struct {
	once sync.Once
	yard *yard
	err  error
}

// theYard returns the yard that all attacks share.
func theYard(t *testing.T) *yard {
	t.Helper()
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("starts a whole fleet: run `make attack`, or set IRONYARD_E2E=1")
	}
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	shared.once.Do(func() { shared.yard, shared.err = newYard(t) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.yard
}

// long skips an attack that takes too long for make test.
func long(t *testing.T) {
	t.Helper()
	if !takesLong() {
		t.Skip("takes long: run `make attack`, or set IRONYARD_ATTACK=long")
	}
}

// takesLong reports whether attacks may take long.
func takesLong() bool { return os.Getenv("IRONYARD_ATTACK") == "long" }

func newYard(t *testing.T) (y *yard, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	y = &yard{hosts: map[string]*network.Host{}, rackds: map[string]*process.Process{}, issuer: issuertest.New(t)}
	if y.dir, err = os.MkdirTemp("", "ironyard-attack-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			y.close()
			err = fmt.Errorf("%w; what is left is in %s", err, y.dir)
		}
	}()
	for _, step := range []func(context.Context) error{y.build, y.wire, y.prepare, y.startCentral, y.startBus, func(context.Context) error { return y.smallDisk() }, y.startMachines, y.startRackds} {
		if err := step(ctx); err != nil {
			return y, err
		}
	}
	return y, nil
}

func (y *yard) build(ctx context.Context) (err error) {
	bin := filepath.Join(y.dir, "bin")
	if y.programs, err = topology.Build(ctx, bin); err != nil {
		return err
	}
	y.ironyard = filepath.Join(bin, "ironyard")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", y.ironyard, "github.com/ironyard/ironyard/ops/ironyard").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build ironyard: %w: %s", err, out)
	}
	return nil
}

// wire makes the hosts and callers.
func (y *yard) wire(context.Context) (err error) {
	if y.floor, err = network.NewSwitch("floor"); err != nil {
		return err
	}
	y.ends = append(y.ends, y.floor.Close)
	for name, address := range addresses {
		if _, err := y.host(name, address); err != nil {
			return err
		}
	}
	y.operator = newCaller(y.hosts["operator"], y.api())
	y.stranger = newCaller(y.hosts["stranger"], y.api())
	return nil
}

func (y *yard) host(name, address string) (*network.Host, error) {
	h, err := y.floor.Host(name, netip.MustParseAddr(address))
	if err != nil {
		return nil, err
	}
	y.hosts[name] = h
	y.ends = append(y.ends, h.Close)
	return h, nil
}

func (y *yard) api() string { return "https://" + y.hosts["central"].At(apiPort) }

func (y *yard) file(name string) string { return filepath.Join(y.dir, name) }

func (y *yard) database() string { return "sqlite:" + y.file("central.db") }

// prepare writes what programs read: keys, users, boot files, an image and who signs tokens.
func (y *yard) prepare(ctx context.Context) error {
	key, err := y.run(ctx, "central", y.programs.Central, "key", "generate")
	if err != nil {
		return err
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(basicPassword), htpasswdCost)
	if err != nil {
		return err
	}
	if err := os.Mkdir(y.file("boot"), 0o700); err != nil {
		return err
	}
	for name, text := range map[string]string{"fleet.key": key, "htpasswd": basicUser + ":" + string(hash) + "\n",
		"boot/undionly.kpxe": "x", "boot/kernel": "kernel", "boot/ramdisk": "ramdisk"} {
		if err := os.WriteFile(y.file(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	l, err := y.hosts["operator"].Listen("tcp", y.hosts["operator"].At(8000))
	if err != nil {
		return err
	}
	y.images = newImageServer()
	y.images.other = newImageServer()
	y.serve(l, y.images)
	if l, err = y.hosts["operator"].Listen("tcp", y.hosts["operator"].At(8001)); err != nil {
		return err
	}
	y.issuer.URL = "http://" + l.Addr().String()
	y.serve(l, y.issuer)
	y.operator.bearer = y.token("dc-admins", "")
	_, err = y.run(ctx, "central", y.programs.Central, "migrate", "--database", y.database())
	return err
}

func (y *yard) serve(l net.Listener, h http.Handler) {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go srv.Serve(l) // ends with Close
	y.ends = append(y.ends, func() { srv.Close() })
}

// token is a bearer token of a member of group, acting in a project.
func (y *yard) token(group, project string) string {
	return y.issuer.Token(map[string]any{"realm_access": map[string]any{"roles": []string{group}}, "project_id": project,
		"exp": time.Now().Add(2 * time.Hour).Unix()})
}

func (y *yard) startCentral(ctx context.Context) error {
	h := y.hosts["central"]
	y.central = y.daemon("central", h, y.programs.Central, "serve", "--database", y.database(), "--key-file", y.file("fleet.key"), "--listen", h.At(apiPort),
		"--enrol-listen", h.At(enrolPort), "--bus", "tls://"+addresses["hub"]+":4222", "--site", siteName+"="+groupA+","+groupB+","+groupD, "--site", farSite+"="+groupC, "--failover", groupA+"="+groupB,
		"--auth", "http_basic,oidc", "--htpasswd", y.file("htpasswd"), "--oidc-issuer", y.issuer.URL, "--oidc-audience", issuertest.Audience,
		"--oidc-roles-claim", "realm_access.roles", "--oidc-grant", "dc-admins=system:admin;owners=project:admin;members=project:member",
		"--max-requests", fmt.Sprint(maxSlots), "--default-conductor-group", groupA)
	return y.central.Start()
}

// startBus has the servers of hub and site join, and starts them.
func (y *yard) startBus(ctx context.Context) error {
	for _, s := range []struct {
		name  string
		kind  []string
		keeps **process.Process
	}{{"hub", []string{"hub"}, &y.hub}, {"bus", []string{"bus", "--site", siteName}, &y.bus}} {
		if err := y.join(ctx, s.name, s.name, append(s.kind, addresses[s.name])...); err != nil {
			return err
		}
		*s.keeps = y.daemon(s.name, y.hosts[s.name], y.ironyard, "site", "serve", "--dir", y.file("member-"+s.name), "--listen", addresses[s.name])
		if err := (*s.keeps).Start(); err != nil {
			return err
		}
	}
	return y.central.Await(ctx, func(ctx context.Context) error {
		status, body, err := y.operator.do(ctx, "GET", "/readyz", nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	})
}

// tokenText finds the token in what `central token` prints.
var tokenText = regexp.MustCompile(`site join --dir \S+ (\S+)`)

// join has a member join with a token, from a host, in the folder member-NAME.
func (y *yard) join(ctx context.Context, host, name string, kind ...string) error {
	said, err := y.run(ctx, "central", y.programs.Central, append([]string{"token", kind[0], "--database", y.database(), "--key-file", y.file("fleet.key"),
		"--url", "https://" + y.hosts["central"].At(enrolPort)}, kind[1:]...)...)
	if err != nil {
		return err
	}
	found := tokenText.FindStringSubmatch(said)
	if found == nil {
		return fmt.Errorf("no token in %q", said)
	}
	return y.central.Await(ctx, func(ctx context.Context) error { // it may not listen yet
		_, err := y.run(ctx, host, y.ironyard, "site", "join", "--dir", y.file("member-"+name), found[1])
		return err
	})
}

// rackdArgs are the flags that one rackd has beside those that all have.
var rackdArgs = map[string][]string{
	"rackd-a": {"--dhcp", "serve", "--dhcp-range", "10.77.1.128-10.77.1.239"},
	"rackd-b": {"--dhcp", "off"},
	"rackd-c": {"--dhcp", "proxy"},
	// This one is impatient, and has few addresses.
	"rackd-d": {"--dhcp", "serve", "--dhcp-range", "10.77.2.10-10.77.2.21", "--deadline", "wait call-back=15s", "--deadline", "deploying=15s"},
}

func (y *yard) startRackds(ctx context.Context) error {
	for name, kind := range map[string][]string{
		"rackd-a": {"rackd", "--site", siteName, "--group", groupA, "rackd-a"},
		"rackd-b": {"rackd", "--site", siteName, "--group", groupB, "--failover-of", groupA, "rackd-b"},
		// This one's credentials are stolen; its program never runs.
		thief: {"rackd", "--site", siteName, "--group", groupA, thief},
	} {
		from := name
		if name == thief {
			from = "stranger"
		}
		if err := y.join(ctx, from, name, kind...); err != nil {
			return err
		}
		if name == thief {
			continue
		}
		if err := y.startRackd(name); err != nil {
			return err
		}
	}
	for name := range y.rackds {
		if err := y.rackds[name].Await(ctx, func(ctx context.Context) error { return y.knows(ctx, name) }); err != nil {
			return err
		}
	}
	return nil
}

// startRackd starts a rackd that has joined.
func (y *yard) startRackd(name string) error {
	h := y.hosts[name]
	y.rackds[name] = y.daemon(name, h, y.programs.Rackd, append([]string{"--member", y.file("member-" + name), "--data", y.file("data-" + name),
		"--interface", "eth0", "--address", h.Addr.String(), "--prefix", "16", "--observe", h.At(observePort), "--boot-programs", y.file("boot"),
		"--kernel", y.file("boot/kernel"), "--ramdisk", y.file("boot/ramdisk"), "--power-sync", powerSync[name], "--bmc-timeout", "5s",
		"--drivers", "redfish,fake-hardware"},
		rackdArgs[name]...)...)
	return y.rackds[name].Start()
}

// powerSync is how often a rackd reads its machines' power. An attack at the site far waits for it.
var powerSync = map[string]string{"rackd-a": "20s", "rackd-b": "20s", "rackd-c": "1s", "rackd-d": "20s"}

// lateRackd has a rackd that only some attacks need join and start, once.
func (y *yard) lateRackd(ctx context.Context, t *testing.T, name, site, group string) {
	t.Helper()
	if y.rackds[name] != nil {
		return
	}
	if err := y.join(ctx, name, name, "rackd", "--site", site, "--group", group, name); err != nil {
		t.Fatal(err)
	}
	if err := y.startRackd(name); err != nil {
		t.Fatal(err)
	}
	if err := y.rackds[name].Await(ctx, func(ctx context.Context) error { return y.knows(ctx, name) }); err != nil {
		t.Fatal(err)
	}
}

// metric is a number that a rackd shows, 0 where it shows none.
func (y *yard) metric(ctx context.Context, t *testing.T, rackd, name string) (sum float64) {
	t.Helper()
	status, text, err := y.operator.at("http://"+y.hosts[rackd].At(observePort)).do(ctx, "GET", "/metrics", nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("metrics of %s: %d %v", rackd, status, err)
	}
	for l := range strings.Lines(text) {
		if l, ok := strings.CutPrefix(l, name); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(l[strings.LastIndexByte(l, ' ')+1:]), 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// conductors are the rackds that central shows, with their groups, as far as they live.
func (y *yard) conductors(ctx context.Context) (map[string]string, error) {
	var list struct {
		Conductors []struct {
			Hostname string
			Group    string `json:"conductor_group"`
			Alive    bool
		}
	}
	if err := y.operator.get(ctx, "/v1/conductors", &list); err != nil {
		return nil, err
	}
	groups := map[string]string{}
	for _, c := range list.Conductors {
		if c.Alive {
			groups[c.Hostname] = c.Group
		}
	}
	return groups, nil
}

func (y *yard) knows(ctx context.Context, rackd string) error {
	groups, err := y.conductors(ctx)
	if err == nil && groups[rackd] == "" {
		err = fmt.Errorf("central does not know %s: %v", rackd, groups)
	}
	return err
}

func (y *yard) daemon(name string, h *network.Host, path string, args ...string) *process.Process {
	p := process.New(process.Spec{Name: name, Host: h, Path: path, Args: args, Env: []string{"GOMAXPROCS=2"}, Log: y.file(name + ".log")})
	y.ends = append(y.ends, p.Close)
	return p
}

// run runs a program to its end on a host and returns what it printed.
func (y *yard) run(ctx context.Context, host, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread stays on the host, and ends with its goroutine
		err := y.hosts[host].Start(cmd)
		if err == nil {
			err = cmd.Wait()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(path), strings.Join(args, " "), err, said.String())
	}
	return out.String(), nil
}

func (y *yard) close() {
	for i := len(y.ends) - 1; i >= 0; i-- {
		y.ends[i]()
	}
	y.ends = nil
}

// until polls until ok says so, and returns its last error if it does not in time.
func until(ctx context.Context, limit time.Duration, ok func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", limit, err)
		case <-tick.C:
		}
	}
}

var errNotYet = errors.New("not yet")

// imageServer serves one image and notes what it is asked.
type imageServer struct {
	body   []byte
	sha256 string
	other  *imageServer // another image, at /other
}

func newImageServer() *imageServer {
	s := &imageServer{body: make([]byte, 256<<10)}
	rand.Read(s.body)
	sum := sha256.Sum256(s.body)
	s.sha256 = hex.EncodeToString(sum[:])
	return s
}

func (s *imageServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.other != nil && r.URL.Path == "/other" {
		s = s.other
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.body))
}
