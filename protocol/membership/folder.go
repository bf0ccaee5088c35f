package membership

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/secretfile"
)

// Files of a folder.
const (
	IdentityFile    = "identity.pem"
	FleetFile       = "fleet.pem"
	CredentialsFile = "bus.creds"
	KeysFile        = "group.keys"
	RouteFile       = "route.pem"
	trustFile       = "trust.json"
	memberFile      = "member.json"
	joiningFile     = "joining.json"
)

// Member is a folder that is complete.
type Member struct {
	Dir     string       `json:"-"`
	ID      string       `json:"id"`
	Scope   join.Scope   `json:"scope"`
	Central join.Central `json:"central"`
	Servers []string     `json:"servers,omitempty"`
	Hubs    []string     `json:"hubs,omitempty"`
	// Renewed is when the folder's contents were granted, Expires how long they count.
	Renewed time.Time `json:"renewed"`
	Expires time.Time `json:"expires"`
	// RenewSeconds is when central wants the member to renew next; 0: as usual.
	RenewSeconds int `json:"renew_s,omitempty"`

	// read stands for what the files held that programs read when they start, as the folder was opened, or renewed by this member.
	read [sha256.Size]byte
}

// Open reads a member's folder.
func Open(dir string) (*Member, error) {
	m := &Member{Dir: dir}
	text, err := os.ReadFile(m.Path(memberFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a member's folder; `ironyard site join TOKEN --dir %s` makes one: %w", dir, dir, err)
	}
	if err == nil {
		err = json.Unmarshal(text, m)
	}
	if err == nil {
		err = m.Scope.Check(true)
	}
	if err != nil {
		return nil, fmt.Errorf("member's folder %s: %w", dir, err)
	}
	m.read = m.contents()
	return m, nil
}

// Path is that of a file in the folder.
func (m *Member) Path(file string) string { return filepath.Join(m.Dir, file) }

// Keyring reads a rackd's keys.
func (m *Member) Keyring() (*seal.Keyring, error) {
	text, err := os.ReadFile(m.Path(KeysFile))
	if err != nil {
		return nil, fmt.Errorf("keys of the conductor groups: %w", err)
	}
	ring, err := seal.ParseKeyring(string(text), m.Scope.Group)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Path(KeysFile), err)
	}
	return ring, nil
}

// Trust reads what a NATS server must know.
func (m *Member) Trust() (join.Trust, error) {
	var t join.Trust
	text, err := os.ReadFile(m.Path(trustFile))
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil {
		return t, fmt.Errorf("what the server trusts: %w", err)
	}
	return t, nil
}

// accept writes a grant. It reports whether files changed that are read only when a
// program starts.
func (m *Member) accept(g join.Grant, k keys, now time.Time) (changed bool, err error) {
	if err := fits(g.Certificate, k.TLS); err != nil {
		return false, err
	}
	if g.RouteCertificate != "" {
		if err := fits(g.RouteCertificate, k.Route); err != nil {
			return false, err
		}
	}
	m.ID, m.Scope, m.Servers, m.Hubs, m.Renewed, m.Expires = g.Member, g.Scope, g.Servers, g.Hubs, now.UTC(), g.Expires
	m.RenewSeconds = g.RenewSeconds
	var w writer
	w.replace(m.Path(IdentityFile), []byte(k.TLS+g.Certificate))
	w.replace(m.Path(FleetFile), []byte(g.Authority))
	if g.UserJWT != "" {
		creds, err := jwt.FormatUserConfig(g.UserJWT, []byte(k.User))
		if err != nil {
			return false, fmt.Errorf("central's grant: %w", err)
		}
		w.replace(m.Path(CredentialsFile), creds)
	}
	if g.RouteCertificate != "" {
		w.replace(m.Path(RouteFile), []byte(k.Route+g.RouteCertificate))
	}
	// What follows is read at a start only.
	w.changed = false
	if g.Keys != "" {
		w.replace(m.Path(KeysFile), []byte(g.Keys))
	}
	if g.Trust != nil {
		w.json(m.Path(trustFile), g.Trust)
	}
	changed = w.changed
	w.json(m.Path(memberFile), m)
	m.read = m.contents()
	return changed, w.err
}

// fits checks that central's certificate is for our key.
func fits(certificate, key string) error {
	_, leaf, err := certificateIn(certificate)
	if err != nil {
		return fmt.Errorf("central's grant: %w", err)
	}
	own, err := readKey(key)
	if err != nil {
		return err
	}
	if !own.PublicKey.Equal(leaf.PublicKey) {
		return errors.New("central's grant: the certificate is for another key")
	}
	return nil
}

// writer replaces files until one fails.
type writer struct {
	changed bool
	err     error
}

func (w *writer) json(path string, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if w.err == nil {
		w.err = err
	}
	w.replace(path, append(text, '\n'))
}

// replace writes a file aside and renames it, so that nobody reads half of it.
func (w *writer) replace(path string, text []byte) {
	if w.err != nil {
		return
	}
	old, err := os.ReadFile(path)
	same := err == nil && bytes.Equal(old, text)
	if info, err := os.Stat(path); same && err == nil && info.Mode().Perm()&0o077 == 0 {
		return
	}
	w.changed = w.changed || !same
	w.err = secretfile.Write(path, text)
}
