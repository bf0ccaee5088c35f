package bus

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestShowURLs(t *testing.T) {
	for urls, want := range map[string]string{
		"nats://hub:4222":          "nats://hub:4222",
		"tls://me:sekret@hub:4222": "tls://hub:4222",
		"nats://sekret@hub":        "nats://hub",
		"hub:4222":                 "nats://hub:4222",
		"nats://a:sekret@one:1, nats://sekret@two/": "nats://one:1,nats://two",
		"nats://hub:4222?token=sekret":              "nats://hub:4222",
	} {
		if got, err := ShowURLs(urls); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", urls, got, err, want)
		}
	}
	for urls, want := range map[string]string{
		"":                               "URL 1 ",
		"nats://":                        "names no host",
		"nats://me:sek%ret@hub:4222":     "%25",
		"nats://hub,nats://me:s#ekret@h": "URL 2 ",
		"nats://me:sek ret@hub:4222":     "escapes",
		"nats://hub:por[sekret":          "escapes",
	} {
		if got, err := ShowURLs(urls); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "ret") {
			t.Errorf("%s: %q, %v, want an error with %q and nothing of the password", urls, got, err, want)
		}
	}
}

func TestAway(t *testing.T) {
	conn, err := nats.Connect("nats://me:sekret@127.0.0.1:1", nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	err = Away(conn)
	if err == nil || !strings.Contains(err.Error(), "nats://127.0.0.1:1 (reconnecting)") || strings.Contains(err.Error(), "sekret") || strings.Contains(err.Error(), "nil") {
		t.Errorf("away: %v", err)
	}
	conn.Close()
	if err := Away(conn); err == nil || !strings.Contains(err.Error(), "(closed)") {
		t.Errorf("closed: %v", err)
	}
}
