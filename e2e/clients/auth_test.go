package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	central "github.com/ironyard/ironyard/central/daemon"
)

// passwordFleet is a fleet whose only user is ann, with the password "secret".
func passwordFleet(t *testing.T) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("ann:"+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return guardedFleet(t, central.Access{Strategies: []string{"http_basic"}, Htpasswd: users})
}

// TestBaremetalWithPasswords has the program show each kind of credentials that it can without a
// Keystone. Who is refused learns so from what it prints.
func TestBaremetalWithPasswords(t *testing.T) {
	s := newSession(t, passwordFleet(t))
	basic := func(user, password string) []string {
		return []string{"--os-auth-type", "http_basic", "--os-username", user, "--os-password", password}
	}
	for name, c := range map[string]struct {
		options []string
		right   bool
	}{
		"right":             {basic("ann", "secret"), true},
		"wrong password":    {basic("ann", "wrong"), false},
		"unknown user":      {basic("bob", "secret"), false},
		"none":              {[]string{"--os-auth-type", "none"}, false},
		"a token":           {[]string{"--os-auth-type", "admin_token", "--os-token", "secret"}, false},
		"name for password": {basic("secret", "ann"), false},
	} {
		r := s.try(c.options, "node", "list", "-f", "json")
		switch {
		case c.right && (r.Status != 0 || strings.TrimSpace(r.Stdout) != "[]"):
			t.Errorf("%s: status %d, %q, %q", name, r.Status, r.Stdout, r.Stderr)
		case !c.right && (r.Status != 1 || r.Stdout != "" || !strings.Contains(r.Stderr, "(HTTP 401)")):
			t.Errorf("%s: status %d, want 1 and HTTP 401: %q, %q", name, r.Status, r.Stdout, r.Stderr)
		}
	}
	if r := s.try(basic("ann", "secret"), "node", "create", "--driver", "fake-hardware", "--name", "one"); r.Status != 0 {
		t.Errorf("create: status %d, %q", r.Status, r.Stderr)
	}
}
