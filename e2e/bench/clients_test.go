package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// clients is how many connections ask at once, as in the measurements of Ironic.
const clients = 16

// call is one request: what is sent, and the status that must come back.
type call struct {
	method, path string
	header       string // a line, with its end; empty for none
	body         []byte
	want         int
}

// outcome is what a crowd of clients saw.
type outcome struct {
	calls    int
	bytes    int64
	took     time.Duration
	p50, p99 time.Duration
	cpu      time.Duration // of all: clients, central, bus, rackd and database
}

func (o outcome) perSecond() float64 { return float64(o.calls) / o.took.Seconds() }

// report makes it what b prints.
func (o outcome) report(b *testing.B, what string) {
	b.ReportMetric(o.perSecond(), what+"/s")
	b.ReportMetric(float64(o.p50.Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(o.p99.Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(o.cpu.Microseconds())/float64(o.calls), "cpu-us/call")
	b.ReportMetric(0, "ns/op") // says nothing
}

// dial opens a connection to who is to be asked.
type dial func() (net.Conn, error)

// crowd lets all clients ask for d over TCP.
func crowd(b *testing.B, at string, d time.Duration, next func(client, i int) call) outcome {
	b.Helper()
	return crowdOver(b, func() (net.Conn, error) { return net.Dial("tcp", at) }, d, next)
}

// crowdOver lets all clients ask for d, each its next question once the last is
// answered. next is called with the client and the number of its question. Client,
// server and database share the machine, so the client does as little as HTTP/1.1 allows.
func crowdOver(b *testing.B, dial dial, d time.Duration, next func(client, i int) call) outcome {
	b.Helper()
	return crowdOf(b, clients, dial, d, next)
}

// crowdOf is crowdOver with so many clients.
func crowdOf(b *testing.B, clients int, dial dial, d time.Duration, next func(client, i int) call) outcome {
	b.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var out outcome
	var errs []error
	var wg sync.WaitGroup
	began, used := time.Now(), cpu()
	for c := range clients {
		wg.Go(func() {
			times, size, err := converse(dial, began.Add(d), func(i int) call { return next(c, i) })
			mu.Lock()
			defer mu.Unlock()
			all, errs = append(all, times...), append(errs, err)
			out.bytes += size
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	out.took, out.calls, out.cpu = time.Since(began), len(all), cpu()-used
	slices.Sort(all)
	if len(all) > 0 {
		out.p50, out.p99 = all[len(all)/2], all[len(all)*99/100]
	}
	return out
}

// converse is one client: it sends until end.
func converse(dial dial, end time.Time, next func(i int) call) (times []time.Duration, size int64, err error) {
	conn, err := dial()
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10)
	var request bytes.Buffer
	for i := 0; ; i++ {
		began := time.Now()
		if began.After(end) {
			return times, size, nil
		}
		c := next(i)
		request.Reset()
		fmt.Fprintf(&request, "%s %s HTTP/1.1\r\nHost: %s\r\nX-OpenStack-Ironic-API-Version: 1.115\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n",
			c.method, c.path, conn.RemoteAddr(), c.header, len(c.body))
		request.Write(c.body)
		if _, err := conn.Write(request.Bytes()); err != nil {
			return nil, 0, err
		}
		n, err := skip(in, c)
		if err != nil {
			return nil, 0, fmt.Errorf("%s %s: %w", c.method, c.path, err)
		}
		size += n
		times = append(times, time.Since(began))
	}
}

var contentLength = []byte("Content-Length: ")

// skip reads an answer, checks its status and forgets its body.
func skip(in *bufio.Reader, c call) (size int64, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	status, length := 0, int64(0)
	if len(line) > 12 {
		status, _ = strconv.Atoi(string(line[9:12]))
	}
	for {
		line, err = in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(line) <= 2 {
			break
		}
		if number, found := bytes.CutPrefix(line, contentLength); found {
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(number)), 10, 64); err != nil {
				return 0, err
			}
		}
	}
	if status != c.want {
		body, _ := io.ReadAll(io.LimitReader(in, min(length, 500)))
		return 0, fmt.Errorf("HTTP status %d, want %d %s: %s", status, c.want, http.StatusText(c.want), body)
	}
	_, err = io.CopyN(io.Discard, in, length)
	return length, err
}
