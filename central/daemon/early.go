package daemon

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/nats-io/jwt/v2"

	"github.com/ironyard/ironyard/protocol/permit"
)

// early finds what would fail once the database is open, which makes and migrates it: addresses,
// certificates and names that cannot be.
func (c *Config) early() error {
	for flag, address := range map[string]string{"listen": c.Listen, "observe": c.Observe, "enrol-listen": c.EnrolListen} {
		if err := checkListen(address); err != nil {
			return fmt.Errorf("--%s %q: %w; write HOST:PORT or :PORT", flag, address, err)
		}
	}
	if c.TLSCert != "" {
		if _, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey); err != nil {
			return fmt.Errorf("--tls-cert %s with --tls-key %s: %w", c.TLSCert, c.TLSKey, err)
		}
	}
	if c.BusCreds != "" {
		if err := checkCreds(c.BusCreds); err != nil {
			return fmt.Errorf("--bus-creds %s: %w", c.BusCreds, err)
		}
	}
	if !c.ownBus() {
		return nil
	}
	for _, s := range c.Sites {
		if s.Name == "" {
			return errors.New("with --enrol-listen every site needs a name: --site NAME=GROUP,…")
		}
		if err := permit.CheckSite(s.Name); err != nil {
			return fmt.Errorf("--site: %w", err)
		}
	}
	return nil
}

// checkListen refuses what cannot be listened on. An empty address is none.
func checkListen(address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err
}

// checkCreds refuses a file that holds no NATS credentials.
func checkCreds(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if _, err := jwt.ParseDecoratedJWT(text); err != nil {
		return err
	}
	_, err = jwt.ParseDecoratedUserNKey(text)
	return err
}
