package bootserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

var print = strings.Repeat("ab", 32)

func words(id, fingerprint string) string {
	return agentapi.ParamAPIURL + "=https://192.0.2.9:6386/boot/" + id + " " + agentapi.ParamAPIFingerprint + "=" + fingerprint
}

// answers are what rackds answer, in turn; the last one stays. The requests are kept.
type answers struct {
	list  []*http.Response
	asked []string
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, r.URL.String())
	now := a.list[0]
	if len(a.list) > 1 {
		a.list = a.list[1:]
	}
	if now == nil {
		return nil, errors.New("connection refused")
	}
	raw, err := io.ReadAll(now.Body)
	now.Body = io.NopCloser(bytes.NewReader(raw))
	copied := *now
	copied.Body = io.NopCloser(bytes.NewReader(raw))
	return &copied, err
}

func says(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

func asker(t *testing.T, a *answers, fingerprint string) Asker {
	return Asker{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Fingerprint: fingerprint, For: 10 * time.Minute, File: filepath.Join(t.TempDir(), "run", "parameters"),
		Transport: a, Places: func(context.Context) []Place {
			return Everywhere([]string{"http://192.0.2.1:8080"}, []string{"52:54:00:00:00:01"})
		}}
}

// What is no answer is asked again; the answer holds for the whole boot.
func TestAsksUntilItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rackd := &answers{list: []*http.Response{nil, says(http.StatusServiceUnavailable, "later"), says(http.StatusFound, ""), says(http.StatusOK, "quiet"),
			says(http.StatusOK, agentapi.ParamAPIURL+"=ftp://x"), says(http.StatusOK, words("one", print)+"\n"), says(http.StatusOK, words("two", print))}}
		a := asker(t, rackd, "")
		for range 2 {
			got, err := a.Parameters(t.Context())
			if err != nil || got != words("one", print) {
				t.Fatalf("%q, %v", got, err)
			}
		}
		if len(rackd.asked) != 6 || rackd.asked[0] != "http://192.0.2.1:8080/boot/parameters?mac=52%3A54%3A00%3A00%3A00%3A01" {
			t.Errorf("asked %q", rackd.asked)
		}
		if info, err := os.Stat(a.File); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file: %v, %v", info, err)
		}
	})
}

// A program that names a certificate believes no answer that names another.
func TestAnotherCertificateIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := asker(t, &answers{list: []*http.Response{says(http.StatusOK, words("one", strings.Repeat("cd", 32)))}}, print)
		if got, err := a.Parameters(t.Context()); err == nil || !strings.Contains(err.Error(), "no rackd told this machine") {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := os.Stat(a.File); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it was kept: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a := asker(t, &answers{list: []*http.Response{says(http.StatusOK, words("one", print))}}, print)
		if got, err := a.Parameters(t.Context()); err != nil || got != words("one", print) {
			t.Errorf("the same certificate: %q, %v", got, err)
		}
	})
}

func TestBootFilesOfOthers(t *testing.T) {
	for name, ours := range map[string]bool{
		"http://10.77.0.1:8080/boot/parameters?mac=52%3A54%3A00%3A00%3A00%3A01": true,
		"http://10.77.0.1:8080/boot/parameters":                                 true,
		"http://10.77.0.1:8080/boot/script":                                     false,
		"https://10.77.0.1/boot/parameters":                                     false,
		"http://u:p@10.77.0.1/boot/parameters":                                  false,
		"/boot/parameters":                                                      false,
		"pxelinux.0":                                                            false,
		"":                                                                      false,
		"http://[::1":                                                           false,
	} {
		if IsParameters(name) != ours {
			t.Errorf("%q: %t", name, !ours)
		}
		if ours && BaseOf(name) != "http://10.77.0.1:8080" {
			t.Errorf("the server of %q is %q", name, BaseOf(name))
		}
	}
}
