package attack

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/ironyard/ironyard/e2e/faults/process"
)

// memory is a number of /proc/PID/status, in MiB.
func memory(t *testing.T, p *process.Process, field string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), field+":")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib / 1024
}

// forgetPeak has VmHWM count from now.
func forgetPeak(t *testing.T, p *process.Process) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// Strangers send inventories of 16 MiB that are made of many small values.
func TestLargeAnonymousBodies(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	const bodies, allowed = 3, 200 // MiB more
	body := []byte(`{"inventory":{"interfaces":[{"name":"e","mac_address":"02:00:00:00:00:99"}]},"x":[` + strings.Repeat(`{},`, 16<<20/3-100) + `{}]}`)
	forgetPeak(t, y.central)
	before := memory(t, y.central, "VmRSS")
	var sent sync.WaitGroup
	for range bodies {
		sent.Go(func() { y.stranger.do(ctx, "POST", "/v1/continue_inspection", body) }) // refused in any way
	}
	sent.Wait()
	more := memory(t, y.central, "VmHWM") - before
	judge(t, line{6, atTheAPI, fmt.Sprintf("%d bodies of 16 MiB at once", bodies), fmt.Sprintf("%d MiB more", more), fmt.Sprintf("%d MiB", allowed), more > allowed})
}

// served counts how many of a known user's requests are answered, one after the other.
func served(ctx context.Context, n int, ask func(context.Context) (int, error)) (good int, slowest time.Duration) {
	for range n {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		status, err := ask(limited)
		cancel()
		if err == nil && status/100 == 2 {
			good++
		}
		slowest = max(slowest, time.Since(began))
	}
	return good, slowest
}

// Strangers guess passwords on more connections than central has slots.
func TestWrongPasswords(t *testing.T) {
	y := theYard(t)
	ctx, stop := context.WithCancel(t.Context())
	var guessed atomic.Int64
	var guessing sync.WaitGroup
	for n := range maxSlots * 13 / 10 {
		guessing.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, "GET", y.api()+"/v1/nodes", nil)
				if err != nil {
					return
				}
				req.SetBasicAuth(basicUser, fmt.Sprint("guess ", n))
				if resp, err := y.stranger.web.Do(req); err == nil {
					resp.Body.Close()
					guessed.Add(1)
				}
			}
		})
	}
	if err := until(ctx, 30*time.Second, func(context.Context) error {
		if guessed.Load() < 10 {
			return errNotYet
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	good, slowest := served(ctx, 10, func(ctx context.Context) (int, error) {
		status, _, err := y.operator.do(ctx, "GET", "/v1/nodes?limit=1", nil)
		return status, err
	})
	stop()
	guessing.Wait()
	judge(t, line{7, atTheAPI, fmt.Sprintf("wrong passwords, %d at once", maxSlots*13/10), fmt.Sprintf("%d of 10 of an operator's requests served, slowest %.1f s", good, slowest.Seconds()),
		"10 of 10", good < 10})
}

// Strangers begin bodies and do not end them; a machine's agent looks itself up.
func TestSlowAnonymousBodies(t *testing.T) {
	y := theYard(t)
	ctx := t.Context()
	agent := newCaller(y.hosts["stranger2"], y.api())
	lookup := func(ctx context.Context) (int, error) {
		status, _, err := agent.do(ctx, "GET", "/v1/lookup?addresses=02:00:00:00:00:77", nil)
		if status == http.StatusNotFound { // an answer to a machine that is not there
			status = http.StatusOK
		}
		return status, err
	}
	if good, _ := served(ctx, 3, lookup); good < 3 {
		t.Fatalf("%d of 3 lookups are answered when nobody disturbs them", good)
	}
	for n := range maxSlots * 6 / 10 {
		raw, err := y.hosts["stranger"].DialContext(ctx, "tcp", y.hosts["central"].At(apiPort))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { raw.Close() })
		raw.SetDeadline(time.Now().Add(time.Minute))
		path := "/v1/continue_inspection"
		if n%2 == 0 {
			path = "/v1/heartbeat/6f3d2c8e-0000-4000-8000-000000000000"
		}
		if _, err := fmt.Fprintf(tls.Client(raw, &tls.Config{InsecureSkipVerify: true}), "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
			"X-OpenStack-Ironic-API-Version: 1.95\r\nContent-Length: 10000\r\n\r\n{\"a\":\"", path, y.hosts["central"].At(apiPort)); err != nil {
			t.Logf("connection %d was not let in: %v", n, err)
		}
	}
	good, slowest := served(ctx, 10, lookup)
	judge(t, line{7, atTheAPI, fmt.Sprintf("bodies that do not end, %d at once", maxSlots*6/10), fmt.Sprintf("%d of 10 lookups of another answered, slowest %.1f s", good, slowest.Seconds()),
		"10 of 10", good < 10})
}

// A stranger's heartbeats with wrong tokens leave lines in the audit.
func TestAuditOfStrangers(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	n := y.fakeNode(ctx, t, "audited", groupA)
	const tries = 200
	for range tries {
		if status, body, err := y.stranger.do(ctx, "POST", "/v1/heartbeat/"+n.UUID, map[string]any{"callback_url": "https://10.77.1.66", "agent_version": "9", "agent_token": "guess"}); err != nil || status/100 == 2 {
			t.Fatalf("a stranger's heartbeat: %d %s %v", status, body, err)
		}
	}
	var list struct{ Audit []map[string]any }
	if err := y.operator.get(ctx, "/v1/audit?limit=1000&node="+n.UUID, &list); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, l := range list.Audit {
		if path, _ := l["path"].(string); strings.Contains(path, "heartbeat") {
			refused++
		}
	}
	judge(t, line{13, atTheAPI, fmt.Sprintf("%d heartbeats with wrong tokens", tries), fmt.Sprintf("%d lines of audit", refused), "2 a minute", refused > 4})
}

// A name that exists costs a comparison of bcrypt; one that does not must cost as much.
func TestNamesByTime(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	wrong := func(user string) time.Duration {
		req, err := http.NewRequestWithContext(ctx, "GET", y.api()+"/v1/nodes", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":wrong")))
		began := time.Now()
		resp, err := y.stranger.web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Fatalf("a wrong password of %q: %s", user, resp.Status)
		}
		return time.Since(began)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("one"), htpasswdCost)
	if err != nil {
		t.Fatal(err)
	}
	compare := func() time.Duration {
		began := time.Now()
		if err := bcrypt.CompareHashAndPassword(hash, []byte("other")); err == nil {
			t.Fatal("two passwords have one hash")
		}
		return time.Since(began)
	}
	// The three take turns. What else this host does for a moment slows all of them.
	known, unknown, comparison := time.Minute, time.Minute, time.Minute
	for range 60 {
		known, unknown, comparison = min(known, wrong(basicUser)), min(unknown, wrong("no-such-user")), min(comparison, compare())
	}
	judge(t, line{15, atTheAPI, "tell users' names by time", fmt.Sprintf("%.1f ms against %.1f", ms(known), ms(unknown)),
		fmt.Sprintf("%.1f ms apart, half a comparison", ms(comparison/2)), (known - unknown).Abs() > comparison/2})
}

// ms is a time in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// A stranger gets an image from a rackd's cache by its checksum.
func TestImageByChecksum(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	y.deployedImage(ctx, t)
	got := false
	for _, rackd := range []string{"rackd-a", "rackd-b"} {
		for _, path := range []string{"/images/" + y.images.sha256, "/images/sha256-" + y.images.sha256, "/images/sha256/" + y.images.sha256} {
			status, body, err := y.stranger.at("http://"+addresses[rackd]+":8080").do(ctx, "GET", path, nil)
			got = got || err == nil && status == http.StatusOK && bytes.Equal([]byte(body), y.images.body)
		}
	}
	judge(t, line{15, onTheNetwork, "an image by its checksum", fmt.Sprintf("given: %t", got), "false", got})
}

// deployedImage has the image in the cache of groupB's rackd.
func (y *yard) deployedImage(ctx context.Context, t *testing.T) {
	t.Helper()
	e := y.enrol(ctx, t, groupB, nil)
	y.available(ctx, t, e)
	y.deploy(ctx, t, e)
	if err := y.operator.awaits(ctx, e.id, "active", time.Minute); err != nil {
		t.Fatal(err)
	}
}
