package attack

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/agent/commandapi"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	simulated "github.com/ironyard/ironyard/ops/virtual/fleet/machine"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// impostor is a stranger who wants to be taken for a machine's agent.
type impostor struct {
	*caller
	y      *yard
	victim *enrolled
	url    string // of its command API
	ca     string // the certificate of that, PEM

	mu       sync.Mutex
	scripts  int             // that boot the ramdisk
	tokens   map[string]bool // that lookups have told
	accepted []string        // heartbeats that were taken for the agent's
	commands []string        // that it was sent
	drives   int             // config drives among them
	spilled  []string        // secrets that answers held
}

// newImpostor starts the impostor's command API, which says yes to everything.
func (y *yard) newImpostor(t *testing.T, victim *enrolled) *impostor {
	t.Helper()
	h := y.hosts["stranger"]
	l, err := h.Listen("tcp", h.At(0))
	if err != nil {
		t.Fatal(err)
	}
	i := &impostor{caller: y.stranger, y: y, victim: victim, tokens: map[string]bool{}, url: "https://" + l.Addr().String()}
	cert, ca, err := commandapi.NewCertificate(time.Now(), h.Addr.AsSlice())
	if err != nil {
		t.Fatal(err)
	}
	i.ca = ca
	srv := &http.Server{Handler: http.HandlerFunc(i.obey), TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}, ReadHeaderTimeout: 5 * time.Second,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	go srv.ServeTLS(l, "", "")
	t.Cleanup(func() { srv.Close() })
	return i
}

func (i *impostor) obey(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is cut off cannot be read below
	drive, answer := obeyed(r, body)
	i.mu.Lock()
	i.commands = append(i.commands, r.Method+" "+r.URL.Path)
	if drive != "" {
		i.drives++
	}
	i.mu.Unlock()
	answer(w)
}

// doors are where agents call: the rackds' and central's.
func (i *impostor) doors() []string {
	return []string{fmt.Sprintf("https://%s:%d", addresses["rackd-a"], agentDoorPort), fmt.Sprintf("https://%s:%d", addresses["rackd-b"], agentDoorPort), i.y.api()}
}

// script asks for the victim's boot script in every way and returns the last that boots the ramdisk.
func (i *impostor) script(ctx context.Context) (found string) {
	mac := url.QueryEscape(i.victim.MAC)
	for _, ask := range []string{"http://" + addresses["rackd-a"] + ":8080/boot/script?mac=" + mac, "http://" + addresses["rackd-a"] + ":8080/boot/script?uuid=" + i.victim.id,
		"http://" + addresses["rackd-b"] + ":8080/boot/script?mac=" + mac, i.y.api() + "/v1/drivers/redfish/vendor_passthru/ipxe_config?port_address=" + mac} {
		status, text, err := i.at(ask).do(ctx, "GET", "", nil)
		if err == nil && status == http.StatusOK && strings.Contains(text, agentapi.ParamAPIURL) {
			found = text
			i.mu.Lock()
			i.scripts++
			i.mu.Unlock()
		}
	}
	return found
}

// lookup asks every door for the victim, with all that the script tells an agent.
func (i *impostor) lookup(ctx context.Context, script string) {
	q := url.Values{"addresses": {i.victim.MAC}, "node_uuid": {i.victim.id}}
	for word := range strings.FieldsSeq(script) {
		if name, value, ok := strings.Cut(word, "="); ok && (strings.HasPrefix(name, "ironyard-") || strings.HasPrefix(name, "ipa-")) {
			q.Set(strings.ReplaceAll(strings.TrimPrefix(name, "ironyard-"), "-", "_"), value)
		}
	}
	plain := url.Values{"addresses": {i.victim.MAC}}
	doors := i.doors()
	if found := bootID.FindStringSubmatch(script); found != nil {
		for _, door := range i.doors() {
			doors = append(doors, agentapi.WithBoot(door, found[1])) // as the machine's own agent calls
		}
	}
	for _, door := range doors {
		for _, values := range []url.Values{q, plain} {
			status, body, err := i.at(door).do(ctx, "GET", agentapi.LookupPath+"?"+values.Encode(), nil)
			if err != nil || status != http.StatusOK {
				continue
			}
			var reply agentapi.LookupReply
			json.Unmarshal([]byte(body), &reply) // no token then
			i.mu.Lock()
			if token := reply.Config.AgentToken; token != "" && token != agentapi.Masked {
				i.tokens[token] = true
			}
			for _, secret := range []string{imagePassword, imageSignature, tenantSecret} {
				if strings.Contains(body, secret) {
					i.spilled = append(i.spilled, secret)
				}
			}
			i.mu.Unlock()
		}
	}
}

// bootID finds the id of the boot in a script.
var bootID = regexp.MustCompile(`/boot/([A-Za-z0-9_-]{20,})`)

// beat says at every door that the impostor is the agent: with the tokens that it was
// told, and with others. ca is the certificate that it names as its own.
func (i *impostor) beat(ctx context.Context, ca string) {
	i.mu.Lock()
	tokens := []string{"", agentapi.Masked}
	for token := range i.tokens {
		tokens = append(tokens, token)
	}
	i.mu.Unlock()
	for n, token := range tokens {
		for _, door := range i.doors() {
			status, _, err := i.at(door).do(ctx, "POST", agentapi.HeartbeatPath+i.victim.id,
				agentapi.Heartbeat{CallbackURL: i.url, AgentVersion: "9", AgentToken: token, AgentVerifyCA: ca, BootID: "impostor"})
			if err == nil && status/100 == 2 {
				i.mu.Lock()
				i.accepted = append(i.accepted, fmt.Sprintf("token %d at %s", n, door))
				i.mu.Unlock()
			}
		}
	}
}

// command tells the real agent to switch the machine off, with each token and without.
func (i *impostor) command(ctx context.Context) (obeyed int) {
	i.mu.Lock()
	tokens := []string{"", agentapi.Masked}
	for token := range i.tokens {
		tokens = append(tokens, token)
	}
	i.mu.Unlock()
	for _, token := range tokens {
		status, _, err := i.at("https://"+i.victim.host.At(agentPort)).do(ctx, "POST", agentapi.CommandsPath+"?wait=false&agent_token="+url.QueryEscape(token),
			agentapi.CommandRequest{Name: "no.such_command", Params: json.RawMessage("{}")})
		if err == nil && status != http.StatusUnauthorized && status != http.StatusForbidden {
			obeyed++
		}
	}
	return obeyed
}

// settled waits until the deploy has ended, and says how.
func (y *yard) settled(ctx context.Context, e *enrolled, limit time.Duration) (n node, err error) {
	err = until(ctx, limit, func(ctx context.Context) error {
		now, err := y.operator.node(ctx, e.id)
		if err != nil {
			return err
		}
		n = now
		if n.State == "active" || strings.HasSuffix(n.State, "failed") || n.State == "error" {
			return nil
		}
		return fmt.Errorf("it is %s: %w", n.State, errNotYet)
	})
	return n, err
}

// deployEnds bounds a deploy, of which an undisturbed one takes some ten seconds.
const deployEnds = 45 * time.Second

// agentCalls is the longest time between two heartbeats of an agent, at rackd's default.
const agentCalls = time.Minute

// A stranger who knows the MAC asks for scripts, looks the machine up and calls as its
// agent, again and again, from before the machine is switched on until the deploy ends.
func TestRaceAgainstTheAgent(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	t.Parallel()
	e := y.enrol(ctx, t, groupA, nil)
	y.available(ctx, t, e)
	i := y.newImpostor(t, e)
	race, stop := context.WithCancel(ctx)
	var obeyed int
	var racing sync.WaitGroup
	racing.Go(func() {
		for tick := time.NewTicker(200 * time.Millisecond); race.Err() == nil; {
			i.lookup(race, i.script(race))
			i.beat(race, i.ca)
			obeyed += i.command(race)
			select {
			case <-race.Done():
			case <-tick.C:
			}
		}
	})
	y.deploy(ctx, t, e)
	n, err := y.settled(ctx, e, deployEnds)
	stop()
	racing.Wait()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.scripts == 0 {
		t.Log("no script for the ramdisk was given to the stranger")
	}
	judge(t, line{1, onTheNetwork, "look the machine up before, while and after its agent does", fmt.Sprintf("%d tokens", len(i.tokens)), "none that counts",
		len(i.tokens) > 0 && (len(i.accepted) > 0 || obeyed > 0)})
	judge(t, line{1, onTheNetwork, "heartbeats with an own URL and certificate", fmt.Sprintf("%d taken for the agent's", len(i.accepted)), "none", len(i.accepted) > 0})
	judge(t, line{1, onTheNetwork, "be sent commands and the config drive", fmt.Sprintf("%d requests, %d config drives", len(i.commands), i.drives), "none", i.drives > 0 || len(i.commands) > 0})
	judge(t, line{1, onTheNetwork, "command the real agent", fmt.Sprintf("%d commands past its door", obeyed), "none", obeyed > 0})
	judge(t, line{9, onTheNetwork, "read secrets in lookups", fmt.Sprintf("%d answers with them", len(i.spilled)), "none", len(i.spilled) > 0})
	y.judgeDeploy(ctx, t, e, n, err, 1, "race the agent all through a deploy")
}

// judgeDeploy holds that the machine runs the tenant's image, as central says, or that
// central says that two agents were there.
func (y *yard) judgeDeploy(ctx context.Context, t *testing.T, e *enrolled, n node, err error, entry int, attempt string) {
	t.Helper()
	reached, over := "the node is "+n.State, false
	switch {
	case err != nil:
		reached, over = fmt.Sprintf("no end within %s, %s", deployEnds, n.State), true
	case n.State == "active":
		var m simulated.Status
		if err := until(ctx, 10*time.Second, func(ctx context.Context) error {
			all, err := e.fleet.Machines(ctx)
			if err != nil {
				return err
			}
			if m = all[0].Status; m.State != simulated.Instance {
				return errNotYet
			}
			return nil
		}); err != nil {
			reached, over = "active, but the machine is "+string(m.State), true
		}
	default:
		reached += ": " + n.LastError
	}
	judge(t, line{entry, onTheNetwork, attempt, reached, "deployed, or a loud failure", over})
}

// A stranger asks for boot scripts, in all ways, as fast as firmware might, and does nothing else.
func TestScriptsKeepADeployFromEnding(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	t.Parallel()
	e := y.enrol(ctx, t, groupA, nil)
	y.available(ctx, t, e)
	i := y.newImpostor(t, e)
	race, stop := context.WithCancel(ctx)
	var racing sync.WaitGroup
	racing.Go(func() {
		for tick := time.NewTicker(300 * time.Millisecond); race.Err() == nil; {
			i.script(race)
			select {
			case <-race.Done():
			case <-tick.C:
			}
		}
	})
	y.deploy(ctx, t, e)
	n, err := y.settled(ctx, e, deployEnds)
	stop()
	racing.Wait()
	written := e.count(ctx, t, journal.WriteBegun)
	y.judgeDeploy(ctx, t, e, n, err, 1, fmt.Sprintf("ask for scripts all through a deploy (disk written %d times)", written))
	if err == nil && n.State != "active" {
		t.Error("a stranger's questions alone may not end a deploy")
	}
}

// A stranger calls once, when the image is being written, and asks for a script before that: the machine seems to boot again.
func TestTakeOverWhileWriting(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	t.Parallel()
	e := y.enrol(ctx, t, groupA, nil)
	y.available(ctx, t, e)
	i := y.newImpostor(t, e)
	y.deploy(ctx, t, e)
	if err := e.noted(ctx, journal.WriteBegun); err != nil {
		t.Fatal(err)
	}
	i.lookup(ctx, i.script(ctx))
	i.beat(ctx, i.ca)
	taken := len(i.accepted)
	i.beat(ctx, "") // whose certificate the system's authorities have signed
	judge(t, line{1, onTheNetwork, "heartbeats that name no certificate", fmt.Sprintf("%d taken for the agent's", len(i.accepted)-taken), "none", len(i.accepted) > taken})
	n, err := y.settled(ctx, e, deployEnds)
	i.mu.Lock()
	defer i.mu.Unlock()
	judge(t, line{1, onTheNetwork, "take over while the image is written", fmt.Sprintf("%d tokens, %d heartbeats taken, %d config drives", len(i.tokens), len(i.accepted), i.drives),
		"none", len(i.accepted) > 0 || i.drives > 0})
	y.judgeDeploy(ctx, t, e, n, err, 1, "the deploy that was to be taken over")
}

// A stranger asks for a machine's script through central and at the rackds in all ways in which its
// address may be written, and claims by headers of proxies to be the machine.
func TestScriptsInOtherWords(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	e := y.enrol(ctx, t, groupA, nil)
	y.available(ctx, t, e)
	plain := strings.ReplaceAll(e.MAC, ":", "")
	names := url.Values{"port_address": {e.MAC, strings.ToUpper(e.MAC), strings.ReplaceAll(e.MAC, ":", "-"), plain, plain[:4] + "." + plain[4:8] + "." + plain[8:], "01-" + strings.ReplaceAll(e.MAC, ":", "-")},
		"node_uuid": {e.id, strings.ToUpper(e.id), strings.ReplaceAll(e.id, "-", ""), e.Name()}}
	var asks []string
	for _, mac := range names["port_address"] {
		asks = append(asks, y.api()+"/v1/drivers/redfish/vendor_passthru/ipxe_config?port_address="+url.QueryEscape(mac), y.api()+"/v1/drivers/redfish/vendor_passthru?method=ipxe_config&port_address="+url.QueryEscape(mac))
		for _, rackd := range []string{"rackd-a", "rackd-b"} {
			asks = append(asks, "http://"+addresses[rackd]+":8080/boot/script?mac="+url.QueryEscape(mac))
		}
	}
	for _, id := range names["node_uuid"] {
		asks = append(asks, y.api()+"/v1/drivers/redfish/vendor_passthru/ipxe_config?node_uuid="+id, "http://"+addresses["rackd-a"]+":8080/boot/script?uuid="+id)
	}
	y.deploy(ctx, t, e)
	if err := until(ctx, 20*time.Second, func(ctx context.Context) error { // the machine itself is given it
		status, text, err := newCaller(e.host, "http://"+addresses["rackd-a"]+":8080").do(ctx, "GET", "/boot/script?mac="+e.MAC, nil)
		if err == nil && !strings.Contains(text, agentapi.ParamAPIURL) {
			err = fmt.Errorf("%d %s", status, text)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	claims := http.Header{}
	for _, name := range []string{"X-Forwarded-For", "X-Real-IP", "X-Client-IP", "True-Client-IP", "Client-IP", "CF-Connecting-IP"} {
		claims.Set(name, e.host.Addr.String())
	}
	claims.Set("Forwarded", "for="+e.host.Addr.String())
	var given, tells []string
	answered := 0
	for _, ask := range asks {
		for _, headers := range []http.Header{{}, claims} {
			req, err := http.NewRequestWithContext(ctx, "GET", ask, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = headers.Clone()
			resp, err := y.stranger.web.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode == http.StatusOK {
				answered++
			}
			if strings.Contains(string(text), agentapi.ParamAPIURL) || strings.Contains(string(text), "kernel ") {
				given = append(given, ask)
			}
			if strings.Contains(string(text), e.Name()) && !strings.Contains(ask, e.Name()) || strings.Contains(string(text), e.id) &&
				!strings.Contains(ask, "node_uuid=") && !strings.Contains(ask, "?uuid=") {
				tells = append(tells, ask)
			}
		}
	}
	if answered == 0 {
		t.Error("no question was answered at all")
	}
	judge(t, line{1, onTheNetwork, "a script by other words and headers of proxies", fmt.Sprintf("%d of %d answers boot the ramdisk", len(given), 2*len(asks)), "0", len(given) > 0})
	judge(t, line{9, onTheNetwork, "the node's name or UUID by its MAC", fmt.Sprintf("%d of %d answers %.200v", len(tells), 2*len(asks), tells), "0", len(tells) > 0})
	n, err := y.settled(ctx, e, deployEnds)
	y.judgeDeploy(ctx, t, e, n, err, 1, "the deploy whose script was asked for")
}

// tftpOpcodes of RFC 1350 that attacks look at.
const tftpData = 3

// tftpRead asks for a file and acknowledges nothing; it returns whether data came.
func tftpRead(conn net.PacketConn, server, file string, wait time.Duration) bool {
	packet := append([]byte{0, 1}, (file + "\x00octet\x00")...)
	if _, err := conn.WriteTo(packet, &net.UDPAddr{IP: net.ParseIP(server), Port: 69}); err != nil {
		return false
	}
	if wait == 0 {
		return false
	}
	conn.SetReadDeadline(time.Now().Add(wait))
	buf := make([]byte, 1024)
	n, _, err := conn.ReadFrom(buf)
	return err == nil && n >= 4 && buf[1] == tftpData
}

// A stranger begins 300 transfers and acknowledges none; another machine wants its firmware's program.
func TestTFTPWithoutAcknowledgements(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	const file = "undionly.kpxe"
	open := func(host string) net.PacketConn {
		conn, err := y.hosts[host].ListenPacket("udp4", y.hosts[host].At(0))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	if !tftpRead(open("stranger2"), addresses["rackd-b"], file, 3*time.Second) {
		t.Fatal("TFTP does not answer at all")
	}
	for range 300 {
		tftpRead(open("stranger"), addresses["rackd-b"], file, 0)
	}
	began := time.Now()
	served := until(ctx, 15*time.Second, func(context.Context) error {
		if !tftpRead(open("stranger2"), addresses["rackd-b"], file, time.Second) {
			return errNotYet
		}
		return nil
	})
	took := time.Since(began)
	judge(t, line{14, onTheNetwork, "300 TFTP requests, nothing acknowledged", fmt.Sprintf("others wait %.1f s", took.Seconds()), "3 s", served != nil || took > 3*time.Second})
}
