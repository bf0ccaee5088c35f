package snmptest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Snmpd starts snmpd of net-snmp with objects, until the test ends, and returns its port on 127.0.0.1. users are lines of its
// configuration; version 2c with the community "ready" is there besides.
func Snmpd(t testing.TB, users string, objects Objects) (port string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // snmpd takes what follows a comma of the test's name for another file
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	conf := "rocommunity ready\n" + users
	for _, name := range sorted(objects) {
		switch value := objects[name].(type) {
		case int:
			conf += fmt.Sprintf("override .%s integer %d\n", name, value)
		case string:
			conf += fmt.Sprintf("override .%s octet_str 0x%x\n", name, value)
		}
	}
	file := filepath.Join(dir, "snmpd.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	port = freePort(t)
	environment := append(os.Environ(), "SNMP_PERSISTENT_DIR="+filepath.Join(dir, "persistent"), "MIBS=",
		"MIBDIRS=/nonexistent", "SNMPCONFPATH=/nonexistent")
	server := exec.Command("snmpd", "-f", "-Le", "-C", "-c", file, "-p", filepath.Join(dir, "pid"), "-I", "-smux", "udp:127.0.0.1:"+port)
	var said bytes.Buffer
	server.Env, server.Stdout, server.Stderr = environment, &said, &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() { _ = server.Process.Kill(); _ = server.Wait() }
	for end := time.Now().Add(30 * time.Second); ; {
		ask := exec.Command("snmpget", "-v2c", "-c", "ready", "-t", "1", "-r", "1", "127.0.0.1:"+port, ".1.3.6.1.2.1.1.2.0")
		ask.Env = environment
		out, err := ask.CombinedOutput()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			stop()
			t.Fatalf("snmpd does not answer: %s\n%.2000s", strings.TrimSpace(string(out)), said.String())
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Cleanup(stop)
	return port
}

// freePort is a UDP port that nothing listens on now.
func freePort(t testing.TB) string {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return strconv.Itoa(conn.LocalAddr().(*net.UDPAddr).Port)
}
