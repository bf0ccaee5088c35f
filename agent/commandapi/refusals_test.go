package commandapi

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Wrong tokens, as many as they are, leave a line a minute, with nothing in it that their sender
// chose.
func TestWrongTokensAreLoggedBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &Server{Token: token, Log: slog.New(slog.NewTextHandler(&log, nil))}
		h := s.Handler()
		knock := func(n int) {
			for range n {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/commands/chosen-by-a-stranger?agent_token=wrong", nil))
				if w.Code != http.StatusUnauthorized {
					t.Fatalf("answered %d", w.Code)
				}
			}
		}
		knock(1000)
		if n := strings.Count(log.String(), "\n"); n != 1 || strings.Contains(log.String(), "stranger") || !strings.Contains(log.String(), "192.0.2.1") {
			t.Errorf("%d lines for 1000 requests, want one that names the address:\n%.500s", n, log.String())
		}
		time.Sleep(2 * refusalEvery)
		log.Reset()
		knock(2)
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "=999") {
			t.Errorf("minutes later: %q, want one line that counts the 999", text)
		}
	})
}
