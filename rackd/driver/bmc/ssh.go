package bmc

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// SSH is a host that speaks SSH, and how to log in to it.
type SSH struct {
	// Address is the host and its port.
	Address  string
	User     string
	Password string     // empty: by Key alone
	Key      ssh.Signer // nil: by Password alone
	// HostKey is the key that the host must show; nil: the operator said on the node that it is not checked.
	HostKey ssh.PublicKey
	// HostKeyField is the field of driver_info that HostKey comes from.
	HostKeyField string
}

// HostKey reads a field with a host's public key, or false. Its errors are for driver.Refuse.
func HostKey(field, text string) (ssh.PublicKey, error) {
	if strings.EqualFold(text, "false") {
		return nil, nil
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return nil, driver.Refuse("%s is no public key such as \"ssh-ed25519 AAAA…\": it says which host is the right one. false skips the check", field)
	}
	return key, nil
}

// Dial connects and logs in, as long as ctx allows. Refused credentials are marked by RefusedLogin. A password is sent once: hosts
// count what they refuse.
func (s SSH) Dial(ctx context.Context, timeout time.Duration, networks outbound.BMCs) (*ssh.Client, error) {
	var methods []ssh.AuthMethod
	if s.Key != nil {
		methods = append(methods, ssh.PublicKeys(s.Key))
	}
	sent := false
	if s.Password != "" {
		methods = append(methods, ssh.PasswordCallback(func() (string, error) { sent = true; return s.Password, nil }))
	}
	client, err := s.dial(ctx, timeout, networks, methods)
	if isRefusedLogin(err) && s.Password != "" && !sent {
		// The host asks for passwords by questions alone.
		return s.dial(ctx, timeout, networks, []ssh.AuthMethod{ssh.KeyboardInteractive(s.answers())})
	}
	return client, err
}

// errQuestion is what a host asks that is not the password.
var errQuestion = errors.New("the host asks for more than a password")

// answers returns what answers a host's question for the password, once: a host that refuses it may ask again within one login.
func (s SSH) answers() ssh.KeyboardInteractiveChallenge {
	answered := false
	return func(_, _ string, questions []string, echos []bool) ([]string, error) {
		switch {
		case len(questions) == 0:
			return nil, nil // a greeting
		case answered || len(questions) > 1 || echos[0]:
			return nil, errQuestion
		}
		answered = true
		return []string{s.Password}, nil
	}
}

// dial is Dial by these methods.
func (s SSH) dial(ctx context.Context, timeout time.Duration, networks outbound.BMCs, methods []ssh.AuthMethod) (*ssh.Client, error) {
	wire, err := outbound.Dialer(timeout, networks.Check).DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return nil, &Lost{Err: err}
	}
	stop := context.AfterFunc(ctx, func() { _ = wire.SetDeadline(time.Unix(1, 0)) })
	client, err := s.login(wire, methods)
	if err != nil {
		stop()
		wire.Close()
		return nil, err
	}
	if !stop() {
		client.Close()
		return nil, &Lost{Err: context.Cause(ctx)}
	}
	return client, nil
}

// login makes a client of a connection.
func (s SSH) login(wire net.Conn, methods []ssh.AuthMethod) (*ssh.Client, error) {
	config := &ssh.ClientConfig{User: s.User, Auth: methods}
	trust, shown := ssh.InsecureIgnoreHostKey(), false // the operator said so, on this node
	if s.HostKey != nil {
		trust, config.HostKeyAlgorithms = ssh.FixedHostKey(s.HostKey), algorithms(s.HostKey.Type())
	}
	config.HostKeyCallback = func(host string, at net.Addr, key ssh.PublicKey) error {
		err := trust(host, at, key)
		shown = err == nil
		return err
	}
	conn, channels, requests, err := ssh.NewClientConn(wire, s.Address, config)
	if err == nil {
		return ssh.NewClient(conn, channels, requests), nil
	}
	switch {
	case strings.Contains(err.Error(), "unable to authenticate"), errors.Is(err, errQuestion), shown && sentAway(err):
		return nil, RefusedLogin(&Failure{Class: Denied, Said: err.Error()})
	case strings.Contains(err.Error(), "host key mismatch"):
		return nil, &Failure{Class: Invalid, Said: "with another key than " + s.HostKeyField + "; correct it if the host has a new one"}
	}
	return nil, &Lost{Err: err}
}

// sentAway reports whether err is the host's word that it takes no further credentials after those it has refused: by RFC 4253 a protocol
// error, as of sshd with MaxAuthTries, or that no method is left. The library gives such words as text alone.
func sentAway(err error) bool {
	said := strings.ToLower(err.Error())
	return strings.Contains(said, "ssh: disconnect, reason 14:") ||
		strings.Contains(said, "ssh: disconnect, reason 2:") && strings.Contains(said, "auth")
}

// algorithms are those by which a host shows a key of that type.
func algorithms(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{keyType}
}
