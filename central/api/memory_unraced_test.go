//go:build !race

package api

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
)

// What a large provision request takes in memory is bounded by its length, whatever its config drive holds. What would take
// more is refused before it is decoded.
func TestMemoryOfAProvisionRequest(t *testing.T) {
	const size = 16 << 20
	lists := `[` + strings.Repeat("[],", size/3) + `1]`
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"a config drive of lists": {`{"target":"active","configdrive":{"user_data":` + lists + `}}`, 202},
		"a config drive as text":  {`{"target":"active","configdrive":"` + strings.Repeat("QUJD", size/4) + `"}`, 202},
		"steps of lists":          {`{"target":"active","deploy_steps":` + lists + `}`, 413},
		"no object":               {lists, 400},
		"not JSON":                {lists + "]", 400},
	} {
		t.Run(name, func(t *testing.T) {
			b := newGuarded(t)
			b.move("n1", provision.Available, provision.NoState, nil)
			before, peak := watchHeap()
			r := httptest.NewRequestWithContext(t.Context(), "PUT", "http://ironyard.example:6385/v1/nodes/n1/states/provision", strings.NewReader(c.body))
			r.Header.Set("X-OpenStack-Ironic-API-Version", "1.115")
			r.Header.Set("X-Who", ownerProject+" "+memberRoles)
			w := httptest.NewRecorder()
			b.server.ServeHTTP(w, r)
			most := peak()
			taken := int64(most) - int64(before)
			t.Logf("status %d; a body of %d MiB takes %d MiB", w.Code, len(c.body)>>20, taken>>20)
			if w.Code != c.want {
				t.Errorf("status %d, %.300s, want %d", w.Code, w.Body, c.want)
			}
			if taken > 16*size { // twice what is counted: garbage is in it
				t.Errorf("a body of %d MiB takes %d MiB", len(c.body)>>20, taken>>20)
			}
			if b.server.bodies.taken != 0 {
				t.Errorf("%d bytes are not given back", b.server.bodies.taken)
			}
		})
	}
}

// Ten bodies of the greatest size that is taken, of as many values as they can hold, take no more than
// their budget, whatever they are answered.
func TestTenLargeBodiesOfStrangers(t *testing.T) {
	b, _ := ramdiskBench(t, provision.InspectWait, func(c *Config) { c.routed = nil }) // the bench notes one request's route at a time
	at := serveOn(t, b)
	before, peak := watchHeap()
	var wg sync.WaitGroup
	for i := range 10 {
		conn := dialFrom(t, fmt.Sprintf("127.0.0.%d", 2+i), at)
		wg.Go(func() {
			fmt.Fprintf(conn, "POST /v1/continue_inspection HTTP/1.1\r\nHost: x\r\nX-OpenStack-Ironic-API-Version: 1.84\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", maxInspection)
			io.Copy(conn, inspectionOf(maxInspection)) // an error is that it was refused before it had come
			if r, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				r.Body.Close()
				if r.StatusCode < 400 {
					t.Errorf("it was taken: %s", r.Status)
				}
			}
		})
	}
	wg.Wait()
	most := peak()
	const allowed = 200 << 20
	t.Logf("%d MiB before, %d MiB at most", before>>20, most>>20)
	if most > before+allowed {
		t.Errorf("ten bodies of 16 MiB take %d MiB, of which %d are allowed", (most-before)>>20, allowed>>20)
	}
}
