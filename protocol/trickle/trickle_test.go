package trickle

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// server sends so many bytes of a body after each pause, for as long as ctx lives.
type server struct {
	ctx   context.Context
	pause time.Duration
	each  int
	left  int
}

func (s *server) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(s.pause):
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	}
	n := min(len(p), s.each, s.left)
	s.left -= n
	return n, nil
}

func drain(in io.Reader) (sum int, err error) {
	for p := make([]byte, 1<<20); ; {
		n, err := in.Read(p)
		if sum += n; err == io.EOF {
			return sum, nil
		}
		if err != nil {
			return sum, err
		}
	}
}

func TestServers(t *testing.T) {
	for name, tc := range map[string]struct {
		pause time.Duration
		each  int
		size  int
		ends  time.Duration // 0: the body comes whole
		sent  string
	}{
		"fast":                            {0, 1 << 20, 64 << 20, 0, ""},
		"200 KiB a second":                {time.Second, 200 << 10, 64 << 20, 0, ""},
		"pauses for most of the time":     {59 * time.Second, 1 << 20, 8 << 20, 0, ""},
		"small, and slow":                 {50 * time.Second, 1 << 10, 1 << 10, 0, ""},
		"silent":                          {time.Hour, 1, 1 << 20, Within, "sent nothing in 1m0s"},
		"a byte every 59 seconds":         {59 * time.Second, 1, 1 << 20, Within, "sent 1 bytes in 1m0s"},
		"a byte a second":                 {time.Second, 1, 1 << 20, Within, "bytes in 1m0s"},
		"16 KiB a second, after 1 MiB":    {time.Second, 16 << 10, 64 << 20, Within, "bytes in 1m0s"},
		"longer than a minute, and small": {61 * time.Second, 1 << 10, 1 << 10, Within, "sent nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, w := Begin(t.Context(), "http://images:80", Within)
				defer w.Stop()
				began := time.Now()
				n, err := drain(w.Reader(&server{ctx: ctx, pause: tc.pause, each: tc.each, left: tc.size}))
				if tc.ends == 0 {
					if err != nil || n != tc.size || ctx.Err() != nil {
						t.Fatalf("%d bytes, error %v, context %v", n, err, context.Cause(ctx))
					}
					return
				}
				slow, ok := errors.AsType[*Error](err)
				if !ok || slow.From != "http://images:80" || !strings.Contains(err.Error(), tc.sent) {
					t.Fatalf("after %s and %d bytes: %v", time.Since(began), n, err)
				}
				if took := time.Since(began); took != tc.ends {
					t.Errorf("ended after %s, want %s", took, tc.ends)
				}
			})
		})
	}
}

// TestASlowReaderIsNotTheServers: what the reader does between two reads counts against no server.
func TestASlowReaderIsNotTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, w := Begin(t.Context(), "server", Within)
		defer w.Stop()
		in, p := w.Reader(&server{ctx: ctx, pause: time.Second, each: 1 << 10, left: 20 << 10}), make([]byte, 1<<10)
		for range 20 {
			if _, err := in.Read(p); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		if ctx.Err() != nil {
			t.Error(context.Cause(ctx))
		}
	})
}

// TestNoAnswer: the time until the first read counts too.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, w := Begin(t.Context(), "server", Within)
		defer w.Stop()
		began := time.Now()
		<-ctx.Done()
		if took := time.Since(began); took != Within || !strings.Contains(context.Cause(ctx).Error(), "server sent nothing") {
			t.Errorf("after %s: %v", took, context.Cause(ctx))
		}
	})
}
