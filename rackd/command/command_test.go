package command

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// envProgram makes the test binary rackd itself.
const envProgram = "IRONYARD_TEST_RACKD"

func TestMain(m *testing.M) {
	if os.Getenv(envProgram) != "" {
		Main()
		return
	}
	os.Exit(m.Run())
}

// program is rackd as a process of its own, and what it logs.
func program(t *testing.T, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	group, err := key.ForGroup("")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "group.key")
	if err := os.WriteFile(file, []byte(group.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], append(args, "--key-file", file, "--data", t.TempDir())...)
	cmd.Env = append(os.Environ(), envProgram+"=1")
	out, w := io.Pipe()
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { w.CloseWithError(errors.Join(cmd.Wait(), io.EOF)) }()
	return cmd, bufio.NewScanner(out)
}

// A rackd that waits for its bus says which, and nothing of what it would log in with; it
// ends in good order.
func TestBusIsAway(t *testing.T) {
	cmd, log := program(t, "--bus", "nats://me:sekret@127.0.0.1:1")
	var lines []string
	for log.Scan() {
		if lines = append(lines, log.Text()); strings.Contains(log.Text(), "trying again") {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := strings.Join(lines, "\n")
	if !strings.Contains(text, "bus=nats://127.0.0.1:1") || strings.Contains(text, "sekret") || strings.Contains(text, "level=ERROR") {
		t.Errorf("logged:\n%s", text)
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("told to end, it ends with %d", code)
	}
}

// What will never work is not tried again and again.
func TestBusThatIsNone(t *testing.T) {
	cmd, log := program(t, "--bus", "nats://me:sek%ret@127.0.0.1:1")
	var text string
	for log.Scan() {
		text += log.Text() + "\n"
	}
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(text, "--bus") || !strings.Contains(text, "%25") || strings.Contains(text, "sek") {
		t.Errorf("exit %d, logged:\n%s", cmd.ProcessState.ExitCode(), text)
	}
}

// Numbers that nothing could be done with are refused before anything starts, by the name
// of their flag; so are addresses that machines could not use.
func TestBounds(t *testing.T) {
	good := []string{"--interface", "lo", "--address", "10.1.0.2", "--dhcp-range", "10.1.0.100-10.1.0.200"}
	for _, c := range [][]string{
		{"", "--power-sync", "0", "--bmc-timeout", "0", "--prefix", "16", "--dhcp-range", "10.1.7.1-10.1.9.9"},
		{"", "--dhcp", "proxy", "--dhcp-range", ""},
		{"--power-sync", "--power-sync=-1s"},
		{"--power-recovery", "--power-recovery=-1s"},
		{"--bmc-timeout", "--bmc-timeout=-1s"},
		{"--heartbeat-timeout", "--heartbeat-timeout", "10ms"},
		{"--power-failures", "--power-failures", "0"},
		{"--bmc-pace", "--bmc-pace", "0"},
		{"--cache-gib", "--cache-gib", "0"},
		{"--prefix", "--prefix", "99"},
		{"DHCP range", "--strangers-range", "101"},
		{"lines a minute", "--strangers-lines=-1"},
		{"--http-port", "--http-port", "99999"},
		{"--agent-port", "--agent-port", "0"},
		{"--address", "--address", "fd00::1"},
		{"", "--address6", "fd00::1"},
		{"", "--address6", "fd00::1", "--dhcp6-range", "fd00::100-fd00::200,fd00:1::100-fd00:1::200"},
		{"", "--address6", "fd00::1", "--prefix6", "112", "--dhcp6-range", "fd00::100-fd00::200"},
		{"", "--address6", "fd00::1", "--prefix6", "112", "--dhcp6", "proxy"},
		{"--address6", "--address6", "10.1.0.2"},
		{"--address6", "--address6", "fe80::1"},
		{"--address6", "--dhcp6-range", "fd00::100-fd00::200"},
		{"--prefix6", "--address6", "fd00::1", "--prefix6", "127"},
		{"--dhcp6-range", "--address6", "fd00::1", "--prefix6", "112"},
		{"--dhcp6-range", "--address6", "fd00::1", "--dhcp6-range", "fd00::100"},
		{"--dhcp6-range", "--address6", "fd00::1", "--dhcp6-range", "10.0.0.1-10.0.0.2"},
		{"--dhcp6-range", "--address6", "fd00::1", "--dhcp6-range", "fd00::100-fd00:1::200"},
		{"--dhcp6-range", "--address6", "fd00::1", "--dhcp6-range", "fd00::200-fd00::100"},
		{"--dhcp-range", "--dhcp-range", "10.1.0.100"},
		{"--dhcp-range", "--dhcp-range", "10.1.0.200-10.1.0.100"},
		{"--dhcp-range", "--dhcp-range", "10.2.0.100-10.2.0.200"},
		{"--dhcp-range", "--dhcp-range", "10.1.0.100-10.1.1.200"},
		{"", "--ramdisk-for", "arch=aarch64,kernel=/k,ramdisk=/r", "--ramdisk-for", "class=gpu,uki=/u;class=gpu,arch=aarch64,uki=/v"},
		{"--ramdisk-for", "--ramdisk-for", "kernel=/k,ramdisk=/r"},
		{"--ramdisk-for", "--ramdisk-for", "class=gpu,kernel=/k"},
		{"--kernel-params", "--kernel-params", "quiet a=$b"},
		{"--kernel-params", "--kernel-params", `dyndbg="file x +p"`},
		{"", "--kernel-params", `console=ttyS0 a="b"`},
		{"", "--kernel-params", strings.Repeat("x", 380)},
		{"--kernel-params has 381 bytes", "--kernel-params", strings.Repeat("x", 381)},
	} {
		var f flags
		parser, err := kong.New(&f, kong.Vars{"hostname": "r", "version": ""})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(append(good[:len(good):len(good)], c[1:]...)); err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		_, err = f.rack()
		if err = errors.Join(f.bounds(), err); (err == nil) != (c[0] == "") || err != nil && !strings.Contains(err.Error(), c[0]) {
			t.Errorf("%v: error %v", c[1:], err)
		}
	}
}

// A rackd may have no IPv4 address; it has one of either kind.
func TestWithoutIPv4(t *testing.T) {
	for _, c := range [][]string{{"", "--address6", "fd00::1"}, {"--address6"}} {
		var f flags
		parser, err := kong.New(&f, kong.Vars{"hostname": "r", "version": ""})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(append([]string{"--interface", "lo"}, c[1:]...)); err != nil {
			t.Fatal(err)
		}
		r, err := f.rack()
		if (err == nil) != (c[0] == "") || err != nil && !strings.Contains(err.Error(), c[0]) {
			t.Errorf("%v: error %v", c[1:], err)
		}
		if err == nil && (r.Address.IsValid() || r.Address6.String() != "fd00::1" || len(r.Subnets6) != 1 || !r.Subnets6[0].Prefix.Contains(r.Subnets6[0].From)) {
			t.Errorf("%v: %+v", c[1:], r)
		}
	}
}

// The flags' defaults are those of the budget, and each flag sets a number of its own.
func TestStrangersBudget(t *testing.T) {
	budget := func(args ...string) strangers.Budget {
		t.Helper()
		var f flags
		parser, err := kong.New(&f, kong.Vars{"hostname": "r", "version": ""})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(args); err != nil {
			t.Fatal(err)
		}
		return f.budget()
	}
	if got, want := budget(), (strangers.Budget{}.WithDefaults()); got != want {
		t.Errorf("without flags %+v, want %+v", got, want)
	}
	got := budget("--strangers-connections=1", "--strangers-connections-per-address=2", "--strangers-bodies=3", "--strangers-bodies-per-address=4", "--strangers-lines=5",
		"--strangers-machine-lines=6", "--strangers-log-rate=7", "--strangers-log-burst=8", "--strangers-range=9", "--strangers-handshakes=10", "--strangers-handshakes-per-address=11")
	if want := (strangers.Budget{Connections: 1, ConnectionsPerAddress: 2, Bodies: 3, BodiesPerAddress: 4, Lines: 5, MachineLines: 6, LogRate: 7, LogBurst: 8, Range: 9, Handshakes: 10, HandshakesPerAddress: 11}); got != want {
		t.Errorf("with each flag %+v", got)
	}
}
