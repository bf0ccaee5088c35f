//go:build !race

package api

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

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

// inspectionOf is a body of continue_inspection of size bytes whose values are as many as fit.
func inspectionOf(size int) io.Reader {
	const head, tail, values = `{"inventory":{"interfaces":[{"mac_address":"52:54:00:00:00:01"}]},"extra":[[]`, `]}`, `,[],[],[]`
	n := (size - len(head) - len(tail)) / len(values)
	rest := size - len(head) - len(tail) - n*len(values)
	return io.MultiReader(strings.NewReader(head), &repeated{text: values, left: n * len(values)}, strings.NewReader(strings.Repeat(" ", rest)+tail))
}

// repeated is a text again and again, without the memory for it.
type repeated struct {
	text string
	left int
	at   int
}

func (r *repeated) Read(b []byte) (n int, err error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	for n < len(b) && r.left > 0 {
		c := copy(b[n:], r.text[r.at:min(len(r.text), r.at+r.left)])
		n, r.left, r.at = n+c, r.left-c, (r.at+c)%len(r.text)
	}
	return n, nil
}

// heapInUse is what the process's heap takes at this moment, garbage included.
func heapInUse() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64() + sample[1].Value.Uint64()
}

// watchHeap returns what the heap takes now, and a function that ends the watch and returns what it took at most.
func watchHeap() (before uint64, peak func() uint64) {
	runtime.GC()
	before = heapInUse()
	most, stop, watched := before, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			most = max(most, heapInUse())
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Microsecond): // more often it would be a load of its own
			}
		}
	}()
	return before, func() uint64 {
		close(stop)
		<-watched
		return most
	}
}
