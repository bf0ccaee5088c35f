package command

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// sink is a log that several goroutines write to. It tells of the first line.
type sink struct {
	mu   sync.Mutex
	text bytes.Buffer
	line chan struct{}
	once sync.Once
}

func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.once.Do(func() { close(s.line) })
	return s.text.Write(b)
}

// A BMC that answers a login twice has its token in no log: Go's HTTP client prints the second answer.
func TestAnAnswerTwiceIsNotQuoted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		in := bufio.NewReader(c)
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		for range 2 {
			fmt.Fprint(c, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nX-Auth-Token: t0ken-of-a-session\r\n\r\n")
		}
		_, _ = in.Peek(1) // until the other side closes it
	}()
	kept := &sink{line: make(chan struct{})}
	flags, was := stdlog.Flags(), stdlog.Writer()
	defer func() { stdlog.SetFlags(flags); stdlog.SetOutput(was) }()
	hearLibraries(slog.New(slog.NewTextHandler(kept, nil)))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	select {
	case <-kept.line:
	case <-t.Context().Done():
	}
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if got := kept.text.String(); strings.Contains(got, "t0ken") || !strings.Contains(got, "answered without being asked") {
		t.Errorf("the log says %s", got)
	}
}
