package api

import (
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/provision"
)

// from sends a request that comes from an address.
func (b *bench) from(address, method, path, body string, headers ...string) int {
	b.t.Helper()
	r := httptest.NewRequestWithContext(b.t.Context(), method, "http://ironyard.example:6385"+path, strings.NewReader(body))
	r.RemoteAddr = net.JoinHostPort(address, "1000")
	r.Header.Set("X-OpenStack-Ironic-API-Version", "1.68")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.server.ServeHTTP(w, r)
	return w.Code
}

// Requests that strangers are refused write a line of the audit for an address and a minute, and as many of the log; what
// callers who are known are refused is there as ever.
func TestRefusedStrangersWriteFewLines(t *testing.T) {
	t.Parallel()
	b, k := ramdiskBench(t, provision.DeployWait, nil)
	k.refuse["ramdisk_heartbeat"] = 403
	b.server.Auth = wordOf{}
	flush := func() []string {
		t.Helper()
		if err := b.trail.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		return b.strings("SELECT count(*) FROM audit")
	}
	before := flush()
	logged := strings.Count(b.log.String(), "\n")
	const beat = `{"callback_url":"https://10.0.0.1:9999","agent_version":"11","agent_token":"guess"}`
	for i := range 4000 {
		address := fmt.Sprintf("10.0.0.%d", i%4)
		switch i % 5 {
		case 0:
			b.from(address, "POST", "/v1/heartbeat/"+nodeID, beat)
		case 1:
			b.from(address, "POST", "/v1/heartbeat/99999999-2222-4333-8444-555555555555", beat)
		case 2:
			b.from(address, "POST", "/v1/continue_inspection", `{"inventory":7}`)
		case 3:
			b.from(address, "POST", "/v1/nodes", `{}`) // without an account
		case 4:
			b.from(address, "PUT", "/", `{}`)
		}
	}
	if after := flush(); fmt.Sprint(after) != fmt.Sprint([]string{plus(before[0], 4)}) {
		t.Errorf("the audit had %v lines, and has %v after 4,000 refusals of 4 addresses", before, after)
	}
	if lines := strings.Count(b.log.String(), "\n") - logged; lines > 12 {
		t.Errorf("%d lines of the log", lines)
	}
	for range 10 {
		b.from("10.0.0.1", "DELETE", "/v1/nodes/nowhere", "", "X-Who", "system "+adminRoles)
	}
	flush()
	if got := b.strings("SELECT count(*) FROM audit WHERE method = 'DELETE'"); got[0] != "10" {
		t.Errorf("%s lines of what a known caller was refused, want 10", got[0])
	}
}

func plus(number string, n int) string {
	var was int
	fmt.Sscan(number, &was)
	return fmt.Sprint(was + n)
}

// An outage of the database is two lines of the log, however many requests fail, with their number.
func TestAnOutageIsTwoLines(t *testing.T) {
	t.Parallel()
	p, err := storetest.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop() })
	db, err := store.Open(t.Context(), p.Database(t), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	b := newBench(t)
	cfg := b.server.Config
	cfg.Store, cfg.Audit, cfg.routed = db, nil, nil
	b.server = New(cfg)
	status := func() int { return b.do("GET", "/v1/nodes", "1.115", "").StatusCode }
	until := func(want int) (asked int) {
		for end := time.Now().Add(time.Minute); status() != want; asked++ {
			if time.Now().After(end) {
				t.Fatalf("no answer is %d", want)
			}
			time.Sleep(5 * time.Millisecond)
		}
		return asked
	}
	until(200)
	b.log.Reset()
	back := make(chan error, 1)
	go func() { back <- p.Restart(t.Context(), syscall.SIGINT, 2*time.Second) }()
	until(503)
	failed := 1
	for range 200 {
		if status() == 503 {
			failed++
		}
	}
	b.want(503, "GET", "/healthcheck", "", "")
	failed += 1 + until(200)
	if err := <-back; err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(b.log.String(), "can be used again"); {
		if until(200); time.Now().After(end) {
			t.Fatal("the log does not tell that the database is back")
		}
	}
	lines := strings.Split(strings.TrimSpace(b.log.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[1], fmt.Sprintf("failed_requests=%d", failed)) {
		t.Errorf("%d requests failed, and the log says in %d lines\n%.3000s", failed, len(lines), b.log.String())
	}
}
