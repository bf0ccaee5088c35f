package snmp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/drivertest/closedport"
)

// The PDUs of these tests are other people's programs: snmpd of net-snmp, whose outlet is a script, and snmpsimd, which
// stands on pysnmp. snmpget and snmpset of net-snmp see what the driver did, and do something for it to see.
func judges(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("needs snmpd, snmpsim and snmp (Debian's packages); set IRONYARD_E2E=1")
	}
}

// patient is for servers on a machine that is busy with other tests.
var patient = Options{AnswerTimeout: 2 * time.Second, SetTimeout: 10 * time.Second}

// program is a server under test, which listens on a UDP port.
type program struct {
	port int
	cmd  *exec.Cmd
	said bytes.Buffer
}

// start runs a server until the test ends, or until stop.
func start(t *testing.T, port int, env []string, name string, args ...string) *program {
	t.Helper()
	p := &program{port: port, cmd: exec.Command(name, args...)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	return p
}

func (p *program) stop() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// folder is a temporary folder whose name has no comma: snmpd takes what follows one for another file.
func folder(t *testing.T) string {
	dir, err := os.MkdirTemp("", "pdu")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // snmpsimd gives up root's rights
		t.Fatal(err)
	}
	return dir
}

// freePort is a UDP port that nothing listens on now.
func freePort(t *testing.T) int {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).Port
}

// tool runs one of net-snmp's clients.
func tool(t *testing.T, name string, args ...string) (string, error) {
	cmd := exec.Command(name, append([]string{"-On", "-Oq", "-Oe", "-t", "1", "-r", "1"}, args...)...)
	cmd.Env = append(os.Environ(), "SNMP_PERSISTENT_DIR="+folder(t), "MIBS=", "MIBDIRS=/nonexistent", "SNMPCONFPATH=/nonexistent")
	out, err := cmd.Output()
	if err != nil {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			return string(failed.Stderr), err
		}
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// answers waits until a server answers to arguments of snmpget.
func (p *program) answers(t *testing.T, args ...string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		said, err := tool(t, "snmpget", append(args, p.address(), "."+sysObjectID)...)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			p.stop()
			t.Fatalf("%s does not answer: %s\n%.2000s", p.cmd.Path, said, p.said.String())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (p *program) address() string { return "127.0.0.1:" + strconv.Itoa(p.port) }

// netSNMP is an snmpd whose outlets 3 and 4 are a script.
type netSNMP struct {
	*program
	dir  string
	conf string
}

const outletScript = `#!/bin/sh
# -g object: read; -s object type value: write. An outlet is a folder.
cd "$(dirname "$0")" || exit 1
case "$1" in
-g)
	for o in 3 4; do
		[ "$2" = "$(cat $o/state.oid)" ] || continue
		echo "$2"
		echo integer
		cat "$o/$(cat $o/state)"
		exit
	done
	;;
-s)
	echo "$2 $3 $4" >>orders
	for o in 3 4; do
		case "$2 $4" in
		"$(cat $o/on.order)") echo on >$o/state; exit ;;
		"$(cat $o/off.order)") echo off >$o/state; exit ;;
		esac
	done
	echo wrong-value
	;;
esac
`

// newNetSNMP starts an snmpd. users are lines of its configuration.
func newNetSNMP(t *testing.T, o outlet, users string) *netSNMP {
	t.Helper()
	dir := folder(t)
	files := map[string]string{"outlet": outletScript, "orders": ""}
	for number, o := range map[string]outlet{"3": o, "4": o.beside()} {
		if err := os.Mkdir(filepath.Join(dir, number), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"state": "off\n", "state.oid": "." + prefix + o.state + "\n", "on": strconv.Itoa(o.isOn) + "\n", "off": strconv.Itoa(o.isOff) + "\n",
			"on.order": fmt.Sprintf(".%s%s %d", prefix, o.on, o.setOn), "off.order": fmt.Sprintf(".%s%s %d", prefix, o.off, o.setOff),
		} {
			files[filepath.Join(number, name)] = text
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	vendor, _, _ := strings.Cut(o.state, ".")
	s := &netSNMP{dir: dir, conf: fmt.Sprintf("rocommunity public\npass .%s%s /bin/sh %s\n", prefix, vendor, filepath.Join(dir, "outlet"))}
	if o.sysObjectID != "" {
		s.conf += "sysobjectid ." + prefix + o.sysObjectID + "\n"
	}
	s.run(t, freePort(t), users)
	return s
}

// run starts the snmpd with other users.
func (s *netSNMP) run(t *testing.T, port int, users string) {
	t.Helper()
	if s.program != nil {
		s.stop()
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "persistent")); err != nil { // it remembers users there
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "snmpd.conf"), []byte(s.conf+users), 0o600); err != nil {
		t.Fatal(err)
	}
	s.boot(t, port)
}

// again has the snmpd end and start: its engine is the same, and has started once more.
func (s *netSNMP) again(t *testing.T) {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	_ = s.cmd.Wait()
	s.boot(t, s.port)
}

// boot starts the snmpd.
func (s *netSNMP) boot(t *testing.T, port int) {
	t.Helper()
	conf := filepath.Join(s.dir, "snmpd.conf")
	s.program = start(t, port, []string{"SNMP_PERSISTENT_DIR=" + filepath.Join(s.dir, "persistent"), "MIBS=", "MIBDIRS=/nonexistent", "SNMPCONFPATH=/nonexistent"},
		"snmpd", "-f", "-Le", "-C", "-c", conf, "-p", filepath.Join(s.dir, "pid"), "-I", "-smux", "udp:127.0.0.1:"+strconv.Itoa(port))
	s.answers(t, "-v2c", "-c", "public")
}

// orders are what the script was told to write, in order.
func (s *netSNMP) orders() int {
	raw, _ := os.ReadFile(filepath.Join(s.dir, "orders"))
	return bytes.Count(raw, []byte("\n"))
}

// relay stands between the driver and a PDU. It loses answers, holds them up, and looks away.
type relay struct {
	conn    *net.UDPConn         // towards the driver
	spoiler drivertest.Datagrams // before all that it hands on

	mu        sync.Mutex
	hang      bool
	lose      bool
	whileRead func()
}

// newRelay returns a relay to a server whose port may change hands; written counts the orders that reached it.
func newRelay(t *testing.T, port int, written func() int) *relay {
	near, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	far, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{conn: near}
	server := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
	var served sync.WaitGroup
	var client *net.UDPAddr
	before := written()
	served.Go(func() {
		b := make([]byte, 4096)
		for {
			n, from, err := near.ReadFromUDP(b)
			if err != nil {
				return
			}
			r.mu.Lock()
			client = from
			if !r.hang && r.spoiler.Up() {
				before = written()
				_, _ = far.WriteToUDP(b[:n], server)
			}
			r.mu.Unlock()
		}
	})
	served.Go(func() {
		b := make([]byte, 4096)
		for {
			n, _, err := far.ReadFromUDP(b)
			if err != nil {
				return
			}
			r.mu.Lock()
			wrote := written() > before
			if do := r.whileRead; do != nil && !wrote {
				r.whileRead = nil
				do()
			}
			if wrote && r.lose {
				r.lose = false
			} else {
				packets, late := r.spoiler.Down(bytes.Clone(b[:n]))
				to := client
				time.AfterFunc(late, func() {
					for _, packet := range packets {
						_, _ = near.WriteToUDP(packet, to)
					}
				})
			}
			r.mu.Unlock()
		}
	})
	t.Cleanup(func() { near.Close(); far.Close(); served.Wait(); r.spoiler.Wait() })
	return r
}

// spoil has each datagram of m come to grief on r, where there is time for it.
func (r *relay) spoil(m *drivertest.Machine) *drivertest.Machine {
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		m.Without["Spoil"] = "it starts an snmpd for each datagram of each command: set IRONYARD_HARDWARE=1. TestConformance has that on a double"
		return m
	}
	m.Spoil, m.Asked = r.spoiler.Spoil, r.spoiler.Asked
	m.Without["Sessions"] = "snmpd keeps none: an engine is known by what it has said"
	if m.Restart == nil {
		m.Without["Restart"] = "version 2c keeps nothing that could be forgotten"
	}
	return m
}

func (r *relay) set(do func()) { r.mu.Lock(); defer r.mu.Unlock(); do() }

const (
	v3Users    = "createUser admin SHA-256 %s AES pr1vacy-key\nrwuser admin authpriv\n"
	wrongKeys  = ".1.3.6.1.6.3.15.1.1.5.0" // usmStatsWrongDigests
	firstKey   = "f1rst-auth-key"
	correctKey = "an0ther-auth-key"
)

// The driver keeps the contract with net-snmp's snmpd, by version 2c and by version 3 with keys that change.
func TestConformanceWithSnmpd(t *testing.T) {
	judges(t)
	waits := Options{SetTimeout: 2 * time.Second}
	if os.Getenv("IRONYARD_HARDWARE") != "" {
		waits = patient // the script takes its time on a busy machine, and so many run at once
		waits.Hold = time.Nanosecond
	}
	beside := func(n *node.Document) *node.Document {
		n.DriverInfo[fieldOutlet] = float64(4)
		n.UUID, n.Name = "b3d2", "web2"
		return n
	}
	t.Run("2c", func(t *testing.T) {
		drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
			s := newNetSNMP(t, outlets["apc_rackpdu"], "rwcommunity s3cret\n")
			r := newRelay(t, s.port, s.orders)
			of := func() *node.Document {
				return nodeAt(r.conn.LocalAddr().String(), "apc_rackpdu", map[string]any{fieldCommunity: "s3cret"})
			}
			o := waits
			o.Log = drivertest.Logger(t)
			return r.spoil(&drivertest.Machine{Power: quick(t, o), Secret: "s3cret", Node: of(), Second: func() *node.Document { return beside(of()) },
				Port: func() string { _, port, _ := net.SplitHostPort(r.conn.LocalAddr().String()); return port },
				Without: map[string]string{"Management": "a PDU reaches nothing but the power",
					"Deny": "a wrong community gets no answer: it cannot be told from silence"},
				Writes: s.orders, Lose: func() { r.set(func() { r.lose = true }) }, Hang: func() { r.set(func() { r.hang = true }) },
				Silence: func() { closedport.Keep(t, r.conn) }, WhileRead: func(do func()) { r.set(func() { r.whileRead = do }) }})
		})
	})
	t.Run("3", func(t *testing.T) {
		drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
			s := newNetSNMP(t, outlets["eatonpower"], fmt.Sprintf(v3Users, firstKey))
			r := newRelay(t, s.port, s.orders)
			r.spoiler.Restart = func() { s.again(t) }
			nodeWith := func(key string) *node.Document {
				return nodeAt(r.conn.LocalAddr().String(), "auto", map[string]any{fieldVersion: "3", fieldUser: "admin", fieldCommunity: nil,
					fieldAuthProtocol: "sha256", fieldAuthKey: key, fieldPrivProtocol: "aes", fieldPrivKey: "pr1vacy-key"})
			}
			o := waits
			o.Log = drivertest.Logger(t)
			return r.spoil(&drivertest.Machine{Power: quick(t, o), Secret: firstKey, Node: nodeWith(firstKey), Second: func() *node.Document { return beside(nodeWith(firstKey)) },
				Restart: r.spoiler.Restart,
				Port:    func() string { _, port, _ := net.SplitHostPort(r.conn.LocalAddr().String()); return port },
				Without: map[string]string{"Management": "a PDU reaches nothing but the power"},
				Writes:  s.orders, Lose: func() { r.set(func() { r.lose = true }) }, Hang: func() { r.set(func() { r.hang = true }) },
				Silence: func() { closedport.Keep(t, r.conn) }, WhileRead: func(do func()) { r.set(func() { r.whileRead = do }) },
				Deny:      func() { s.run(t, s.port, fmt.Sprintf(v3Users, correctKey)) },
				Corrected: func() *node.Document { return nodeWith(correctKey) },
				Logins: func() int {
					said, err := tool(t, "snmpget", "-Ov", "-v2c", "-c", "public", s.address(), wrongKeys)
					n, bad := strconv.Atoi(said)
					if err != nil || bad != nil {
						t.Fatalf("how many keys snmpd refused: %q, %v", said, err)
					}
					return n
				}})
		})
	})
}

// Each type of PDU, with the objects of its MIB in snmpd: what the driver writes snmpget reads, and what snmpset
// writes the driver reads.
func TestEveryModelWithSnmpd(t *testing.T) {
	judges(t)
	for name, o := range outlets {
		t.Run(name, func(t *testing.T) {
			s := newNetSNMP(t, o, "rwcommunity private\n")
			d, f := quick(t, patient), &drivertest.Fence{}
			for _, as := range []string{name, auto} {
				if as == auto && o.sysObjectID == "" {
					continue
				}
				n := nodeAt(s.address(), as, map[string]any{fieldCommunityWrite: "private"})
				for target, want := range map[driver.PowerState]int{driver.PowerOn: o.isOn, driver.PowerOff: o.isOff, driver.Rebooting: o.isOn} {
					if err := d.SetPower(t.Context(), f, n, target); err != nil {
						t.Fatal(err)
					}
					if said, err := tool(t, "snmpget", "-Ov", "-v2c", "-c", "public", s.address(), "."+prefix+o.state); said != strconv.Itoa(want) || err != nil {
						t.Errorf("%s, after %q: snmpget reads %q (%v), want %d", as, target, said, err, want)
					}
				}
				for _, c := range []struct {
					object string
					value  int
					want   driver.PowerState
				}{{o.off, o.setOff, driver.PowerOff}, {o.on, o.setOn, driver.PowerOn}} {
					if said, err := tool(t, "snmpset", "-v1", "-c", "private", s.address(), "."+prefix+c.object, "i", strconv.Itoa(c.value)); err != nil {
						t.Fatalf("snmpset: %s", said)
					}
					if is, err := d.PowerState(t.Context(), n); is != c.want || err != nil {
						t.Errorf("%s, after snmpset %s %d: %q, %v", as, c.object, c.value, is, err)
					}
				}
			}
		})
	}
}

// nodeV3 is a node that is reached by version 3; protocols that are empty are left out.
func nodeV3(address, auth, priv string, more map[string]any) *node.Document {
	fields := map[string]any{fieldVersion: "3", fieldUser: "admin", fieldCommunity: nil}
	if auth != "" {
		fields[fieldAuthProtocol], fields[fieldAuthKey] = auth, "auth-key-12"
	}
	if priv != "" {
		fields[fieldPrivProtocol], fields[fieldPrivKey] = priv, "priv-key-12"
	}
	for k, v := range more {
		fields[k] = v
	}
	return nodeAt(address, "apc_rackpdu", fields)
}

// Every way to authenticate and encrypt, with net-snmp's implementation of it. Its keys for AES 192 and 256 are
// lengthened in either way where they are called so.
func TestProtocolsWithSnmpd(t *testing.T) {
	judges(t)
	auths := map[string]string{"md5": "MD5", "sha": "SHA", "sha224": "SHA-224", "sha256": "SHA-256", "sha384": "SHA-384", "sha512": "SHA-512"}
	privs := map[string]string{"": "", "des": "DES", "aes": "AES", "aes192": "AES-192-C", "aes256": "AES-256-C", "aes192blmt": "AES-192", "aes256blmt": "AES-256"}
	users, level := "createUser admin\nrwuser admin noauth\n", map[bool]string{true: "auth", false: "authpriv"}
	named := map[string][2]string{"admin": {"", ""}}
	for auth, theirs := range auths {
		for priv, theirPriv := range privs {
			user := "user-" + auth + "-" + priv
			named[user] = [2]string{auth, priv}
			users += fmt.Sprintf("createUser %s %s auth-key-12", user, theirs)
			if priv != "" {
				users += " " + theirPriv + " priv-key-12"
			}
			users += fmt.Sprintf("\nrwuser %s %s\n", user, level[priv == ""])
		}
	}
	s := newNetSNMP(t, outlets["apc_rackpdu"], users)
	for user, how := range named {
		t.Run(user, func(t *testing.T) {
			d := quick(t, patient)
			n := nodeV3(s.address(), how[0], how[1], map[string]any{fieldUser: user})
			for _, target := range []driver.PowerState{driver.PowerOn, driver.PowerOff} {
				if err := d.SetPower(t.Context(), &drivertest.Fence{}, n, target); err != nil {
					t.Fatal(err)
				}
				if is, err := d.PowerState(t.Context(), n); is != target || err != nil {
					t.Errorf("%q, %v", is, err)
				}
			}
		})
	}
	t.Run("an snmpd that starts anew", func(t *testing.T) {
		d := quick(t, patient)
		n := nodeV3(s.address(), "sha512", "aes256", map[string]any{fieldUser: "user-sha512-aes256"})
		if _, err := d.PowerState(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		s.run(t, s.port, users) // another engine, with other keys of the same passwords
		if err := d.SetPower(t.Context(), &drivertest.Fence{}, n, driver.PowerOn); err != nil {
			t.Fatal(err)
		}
		if is, err := d.PowerState(t.Context(), n); is != driver.PowerOn || err != nil {
			t.Errorf("%q, %v", is, err)
		}
	})
}

// newSnmpsim starts an snmpsimd. Its data is by community, and by context name in version 3.
func newSnmpsim(t *testing.T, o outlet, more ...string) *program {
	t.Helper()
	if _, err := exec.LookPath("snmpsimd"); err != nil {
		t.Fatal(err)
	}
	dir := folder(t)
	data, cache := filepath.Join(dir, "data"), filepath.Join(dir, "cache")
	for _, place := range []string{data, cache} {
		if err := os.Mkdir(place, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(place, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	record := fmt.Sprintf("%s|6|%s%s\n%s%s|2:writecache|value=%d\n", sysObjectID, prefix, o.sysObjectID, prefix, o.state, o.isOff)
	if err := os.WriteFile(filepath.Join(data, "public.snmprec"), []byte(record), 0o644); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	p := start(t, port, nil, "snmpsimd", append(more, "--data-dir="+data, "--cache-dir="+cache, "--variation-modules-dir=/usr/share/snmpsim/variation",
		"--agent-udpv4-endpoint=127.0.0.1:"+strconv.Itoa(port), "--process-user=nobody", "--process-group=nogroup", "--logging-method=null")...)
	p.answers(t, "-v2c", "-c", "public")
	return p
}

// The types of PDUs that have one object, with settable outlets of snmpsim.
func TestModelsWithSnmpsim(t *testing.T) {
	judges(t)
	for name, o := range outlets {
		if o.state != o.on || o.sysObjectID == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p := newSnmpsim(t, o)
			d := quick(t, patient)
			for _, version := range []string{"1", "2c"} {
				n := nodeAt(p.address(), auto, map[string]any{fieldVersion: version})
				for target, want := range map[driver.PowerState]int{driver.PowerOn: o.isOn, driver.PowerOff: o.isOff} {
					if err := d.SetPower(t.Context(), &drivertest.Fence{}, n, target); err != nil {
						t.Fatal(err)
					}
					if said, err := tool(t, "snmpget", "-Ov", "-v2c", "-c", "public", p.address(), "."+prefix+o.state); said != strconv.Itoa(want) || err != nil {
						t.Errorf("version %s, after %q: snmpget reads %q (%v), want %d", version, target, said, err, want)
					}
				}
			}
		})
	}
}

// Every way to authenticate and encrypt that Ironic names, with pysnmp's implementation, which Ironic itself stands on. The
// context's name, and its engine, choose the data.
func TestProtocolsWithSnmpsim(t *testing.T) {
	judges(t)
	const engine = "80004fb80501020304"
	for _, c := range [][2]string{{"", ""}, {"md5", ""}, {"md5", "des"}, {"sha", "aes"}, {"sha", "aes192"}, {"sha", "aes256"}, {"md5", "aes192blmt"}, {"md5", "aes256blmt"},
		{"sha224", "aes"}, {"sha256", "aes192"}, {"sha384", "aes256"}, {"sha512", "des"}} {
		auth, priv := c[0], c[1]
		t.Run(auth+"-"+priv, func(t *testing.T) {
			args := []string{"--v3-engine-id=" + engine, "--v3-user=admin"} // what stands before belongs to another engine
			if auth != "" {
				args = append(args, "--v3-auth-key=auth-key-12", "--v3-auth-proto="+strings.ToUpper(auth))
			}
			if priv != "" {
				args = append(args, "--v3-priv-key=priv-key-12", "--v3-priv-proto="+strings.ToUpper(priv))
			}
			p := newSnmpsim(t, outlets["apc_rackpdu"], args...)
			d := quick(t, patient)
			n := nodeV3(p.address(), auth, priv, map[string]any{fieldContextName: "public", fieldContextEngine: engine})
			for _, target := range []driver.PowerState{driver.PowerOn, driver.PowerOff} {
				if err := d.SetPower(t.Context(), &drivertest.Fence{}, n, target); err != nil {
					t.Fatal(err)
				}
				if is, err := d.PowerState(t.Context(), n); is != target || err != nil {
					t.Errorf("%q, %v", is, err)
				}
			}
			for _, other := range []map[string]any{{fieldContextName: "nonesuch", fieldContextEngine: engine}, {fieldContextName: "public", fieldContextEngine: "80004fb80504030201"}} {
				if is, err := quick(t, Options{AnswerTimeout: 300 * time.Millisecond, Tries: 1}).PowerState(t.Context(), nodeV3(p.address(), auth, priv, other)); err == nil {
					t.Errorf("the context %v, which is not there, is %q", other, is)
				}
			}
		})
	}
}
