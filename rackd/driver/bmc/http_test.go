package bmc

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

func TestHTTPKeepsToItsBMCAndTheFence(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	told := func() []string { // and forgets it
		mu.Lock()
		defer mu.Unlock()
		was := asked
		asked = nil
		return was
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get(work.IDHeader))
		mu.Unlock()
		switch r.URL.Path {
		case "/large":
			_, _ = w.Write(make([]byte, maxAnswer+1))
		case "/lost":
			panic(http.ErrAbortHandler)
		case "/elsewhere":
			http.Redirect(w, r, "http://127.0.0.2:9/", http.StatusFound)
		}
	}))
	defer server.Close()
	wire := NewHTTP(HTTPOptions{Host: strings.TrimPrefix(server.URL, "http://"), ConnectTimeout: 5 * time.Second, AnswerTimeout: 5 * time.Second,
		Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	defer wire.Forget()
	client := &http.Client{Transport: wire, CheckRedirect: SameHost}
	send := func(method, url string) error {
		req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusFound {
				return errors.New("not followed")
			}
		}
		return err
	}
	if send("GET", server.URL) == nil {
		t.Error("a request of no call was sent")
	}
	lost := &drivertest.Fence{}
	lost.Lose()
	wire.Begin(t.Context(), nil)
	for what, url := range map[string]string{"too large an answer": "/large", "a redirect": "/elsewhere", "no answer": "/lost"} {
		if err := send("GET", server.URL+url); err == nil {
			t.Errorf("%s: no error", what)
		} else if gone, ok := errors.AsType[*Lost](err); ok && gone.Unknown {
			t.Errorf("%s: %v: nothing was written", what, err)
		}
	}
	told()
	if send("GET", "http://127.0.0.2:9/") == nil || send("POST", server.URL) == nil {
		t.Error("another host was asked, or a write sent without a fence")
	}
	wire.Begin(t.Context(), lost)
	if err := send("POST", server.URL); !errors.Is(err, driver.ErrFenced) {
		t.Errorf("%v, want ErrFenced", err)
	}
	if asked := told(); asked != nil {
		t.Errorf("the BMC was asked: %v", asked)
	}
	wire.Begin(t.Context(), &drivertest.Fence{})
	err := send("POST", server.URL+"/lost")
	asking := told()
	if gone, ok := errors.AsType[*Lost](err); !ok || !gone.Unknown || len(asking) != 1 || asking[0] != "POST /lost work-1" {
		t.Errorf("%v, the BMC was asked %v; want one write with an outcome that is not known", err, asking)
	}
	wire.BeginLogin(t.Context())
	if err := send("POST", server.URL+"/login"); err != nil {
		t.Errorf("a login: %v", err)
	}
}

func TestStatusFailure(t *testing.T) {
	for status, want := range map[int][2]Class{ // of reads, of writes
		400: {Refused, Refused}, 401: {Denied, Denied}, 403: {Denied, Denied}, 429: {Busy, Busy}, 500: {Refused, Refused}, 502: {Busy, Unknown}, 503: {Busy, Busy}, 504: {Busy, Unknown},
	} {
		if read, write := StatusFailure(status, false, "", nil), StatusFailure(status, true, "", nil); read.Class != want[0] || write.Class != want[1] {
			t.Errorf("%d: %v of reads, %v of writes", status, read.Class, write.Class)
		}
	}
}

// All answers of one call together are bounded. One BMC must not take the memory that all nodes of a rackd share.
func TestOneCallReadsNoMoreThanItMay(t *testing.T) {
	page := make([]byte, 1<<20)
	for i := range page {
		page[i] = ' '
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) }))
	defer server.Close()
	wire := NewHTTP(HTTPOptions{Host: strings.TrimPrefix(server.URL, "http://"), ConnectTimeout: 5 * time.Second, AnswerTimeout: 5 * time.Second,
		Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	defer wire.Forget()
	client := &http.Client{Transport: wire, CheckRedirect: SameHost}
	read := func(most int) (pages int) {
		wire.Begin(t.Context(), nil)
		for ; pages < most; pages++ {
			resp, err := client.Get(server.URL)
			if err != nil {
				break
			}
			resp.Body.Close()
		}
		return pages
	}
	if pages := read(500); pages < 16 || pages > 128 {
		t.Errorf("%d MiB were read in one call", pages)
	}
	if pages := read(2); pages != 2 {
		t.Errorf("the next call reads %d MiB", pages)
	}
}
