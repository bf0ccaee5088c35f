package bmc

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/rackd/outbound"
)

// asking is a host that asks for passwords by its methods, and counts those that it was sent.
func asking(t *testing.T, byPassword, byQuestions bool) (at string, sent func() int) {
	return strict(t, byPassword, byQuestions, 0, 1)
}

// strict is asking for a host that ends the connection after so many refusals, and asks that often within one login by questions.
func strict(t *testing.T, byPassword, byQuestions bool, refusals, times int) (at string, sent func() int) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	n := 0
	check := func(word string) (*ssh.Permissions, error) {
		mu.Lock()
		defer mu.Unlock()
		if n++; word != "s3cret-pass" {
			return nil, errors.New("no")
		}
		return nil, nil
	}
	config := &ssh.ServerConfig{MaxAuthTries: refusals}
	if byPassword {
		config.PasswordCallback = func(_ ssh.ConnMetadata, p []byte) (*ssh.Permissions, error) { return check(string(p)) }
	}
	if byQuestions {
		config.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			for i := 1; ; i++ {
				words, err := ask("", "", []string{"Password: "}, []bool{false})
				if err != nil {
					return nil, err
				}
				if let, err := check(words[0]); err == nil || i == times {
					return let, err
				}
			}
		}
	}
	config.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _, _, _ = ssh.NewServerConn(c, config) }()
		}
	}()
	return l.Addr().String(), func() int { mu.Lock(); defer mu.Unlock(); return n }
}

// A password is sent once, by whichever method the host asks: hosts lock accounts.
func TestAPasswordIsSentOnce(t *testing.T) {
	for name, by := range map[string][2]bool{"password": {true, false}, "questions": {false, true}, "both": {true, true}} {
		for word, refused := range map[string]bool{"s3cret-pass": false, "wr0ng-pass": true} {
			at, sent := asking(t, by[0], by[1])
			c, err := SSH{Address: at, User: "admin", Password: word}.Dial(t.Context(), 5*time.Second, outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")})
			if isRefusedLogin(err) != refused || (err == nil) == refused || sent() != 1 {
				t.Errorf("%s, %s: %v after %d passwords", name, word, err, sent())
			}
			if err == nil {
				c.Close()
			} else if strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A host that ends the connection at a refusal, or asks again within one login, has refused the password all the same, and counts it.
func TestARefusalIsHeardFromAStrictHost(t *testing.T) {
	for name, host := range map[string]struct {
		byPassword, byQuestions bool
		refusals, times         int
	}{"ends the connection": {byPassword: true, refusals: 1, times: 1}, "asks five times": {byQuestions: true, times: 5}} {
		at, sent := strict(t, host.byPassword, host.byQuestions, host.refusals, host.times)
		_, err := SSH{Address: at, User: "admin", Password: "wr0ng-pass"}.Dial(t.Context(), 5*time.Second, outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")})
		if !isRefusedLogin(err) || sent() != 1 {
			t.Errorf("a host that %s: %v after %d passwords", name, err, sent())
		}
	}
}
