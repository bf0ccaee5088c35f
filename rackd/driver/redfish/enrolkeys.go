package redfish

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// keyDatabases are those of UEFI that a step adds certificates to, in the order in which it does: with the platform key the firmware
// leaves its setup mode.
var keyDatabases = []string{"dbx", "db", "KEK", "PK"}

// enrolArguments are what the step takes: a list of certificates for each database.
func enrolArguments() map[string]driver.Argument {
	all := map[string]driver.Argument{}
	for name, what := range map[string]string{"PK": "The certificate of the platform key", "KEK": "Certificates of those who may change db", "db": "Certificates by which programs start", "dbx": "Certificates by which no program starts"} {
		all[name] = driver.Argument{Description: what + ", in PEM. Default: none is added."}
	}
	return all
}

// keyCertificate is one to add to a database.
type keyCertificate struct {
	database string
	der      []byte
}

func (c keyCertificate) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.der}))
}

// certificatesOf reads the arguments of the step.
func certificatesOf(args map[string]any) (list []keyCertificate, err error) {
	for _, database := range keyDatabases {
		given, has := args[database]
		if !has {
			continue
		}
		text, ok := given.(string)
		if !ok {
			return nil, fmt.Errorf("argument %s is no text: give certificates in PEM: %w", database, driver.ErrInvalid)
		}
		n := 0
		for rest := []byte(text); len(bytes.TrimSpace(rest)) > 0; n++ {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				return nil, fmt.Errorf("argument %s has what is no PEM: %w", database, driver.ErrInvalid)
			}
			if block.Type != "CERTIFICATE" { // its content stays out of the error: it may be a private key
				return nil, fmt.Errorf("argument %s has a block of type %.30q: give certificates alone, and keep keys where they are: %w", database, block.Type, driver.ErrInvalid)
			}
			if _, err := x509.ParseCertificate(block.Bytes); err != nil {
				return nil, fmt.Errorf("argument %s: certificate %d: %w: %w", database, n+1, err, driver.ErrInvalid)
			}
			list = append(list, keyCertificate{database, block.Bytes})
		}
		if n == 0 || database == "PK" && n != 1 {
			return nil, fmt.Errorf("argument %s has %d certificates: %w", database, n, driver.ErrInvalid)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("name certificates for %s: %w", strings.Join(keyDatabases, ", "), driver.ErrInvalid)
	}
	return list, nil
}

func checkEnrol(n *node.Document, args map[string]any) error {
	if _, err := certificatesOf(args); err != nil {
		return fmt.Errorf("node %s: %w", n.Label(), err)
	}
	return nil
}

// enrolsKeys is the step that adds certificates to the databases of secure boot. Those that are there are not added again, so it may be
// run again at any time.
func (m Management) enrolsKeys(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	var h keying
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of an enrolment of keys cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	wanted, err := certificatesOf(t.Args)
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: %w", t.Node.Label(), err)
	}
	is, err := m.advanceEnrolment(ctx, t, &h, wanted)
	if err != nil {
		return driver.Outcome{}, err
	}
	if is == running {
		h.tell(t, enrolling)
		return driver.Wait(jobPoll), t.Record.SaveHandle(ctx, h)
	}
	t.Record.Idle()
	return driver.Done(), h.restore(ctx, t, m.Bringup)
}

const enrolling = "enrol the certificates of secure boot"

// advanceEnrolment adds what is missing, or looks once more whether it is there. A BMC that does not show it has the machine restarted,
// once.
func (m Management) advanceEnrolment(ctx context.Context, t *driver.Task, h *keying, wanted []keyCertificate) (progress, error) {
	save := func(ctx context.Context) error { return t.Record.SaveHandle(ctx, *h) }
	if err := h.bring(ctx, t, m.Bringup, save); err != nil {
		return running, err
	}
	if h.pending() {
		return running, nil
	}
	var missing []string
	look := func(write bool) func(b *session, a account, c *gofish.APIClient) error {
		return func(b *session, a account, c *gofish.APIClient) (err error) {
			s, err := b.system(c, a)
			if err != nil {
				return err
			}
			k, err := securingOf(c, s)
			if err != nil {
				return err
			}
			missing, err = addCertificates(c, k.SecureBootDatabases.Path, wanted, write)
			return err
		}
	}
	fence := t.Fence
	if h.Told {
		fence = nil
	}
	err := m.pool.with(ctx, fence, t.Node, enrolling, look(!h.Told))
	h.Looks++
	switch {
	case errors.Is(err, driver.ErrUnreachable) && h.Told && h.Looks < restarted:
		return running, nil
	case err != nil:
		return running, err
	case len(missing) == 0:
		t.Record.Phase("secure boot keys", fmt.Sprintf("%d certificates are in the firmware's databases", len(wanted)))
		return done, nil
	case !h.Told:
		h.Told, h.Looks = true, 0
		return running, nil
	case !h.Due && h.Looks >= settles:
		return running, m.stageKeys(ctx, t, h, "it does not show certificates in "+strings.Join(missing, ", "))
	case !h.Due || h.Looks < restarted:
		return running, nil
	}
	t.Record.Idle()
	return running, fmt.Errorf("node %s: %s: the BMC took them, and does not show all in %s%s: look at the machine's firmware set-up", t.Node.Label(), enrolling, strings.Join(missing, ", "), h.sinceRestart())
}

// addCertificates returns the databases that lack certificates; with write it adds those first.
func addCertificates(c *gofish.APIClient, databases string, wanted []keyCertificate, write bool) (missing []string, err error) {
	if databases == "" {
		return nil, fmt.Errorf("it does not show the databases of secure boot (SecureBootDatabases): %w", driver.ErrUnsupported)
	}
	lists, err := certificateLists(c, databases)
	if err != nil {
		return nil, err
	}
	there := map[string][][]byte{}
	for _, w := range wanted {
		at := lists[w.database]
		if at == "" {
			return nil, fmt.Errorf("it has no database %s of secure boot, or no certificates in it; it has %s: %w", w.database, strings.Join(slices.Sorted(maps.Keys(lists)), ", "), driver.ErrUnsupported)
		}
		if _, read := there[w.database]; read {
			continue
		}
		if there[w.database], err = certificatesAt(c, at); err != nil {
			return nil, err
		}
	}
	for _, w := range wanted {
		if slices.ContainsFunc(there[w.database], func(der []byte) bool { return bytes.Equal(der, w.der) }) {
			continue
		}
		if !slices.Contains(missing, w.database) {
			missing = append(missing, w.database)
		}
		if !write {
			continue
		}
		if _, err := order(c, http.MethodPost, lists[w.database], map[string]any{"CertificateString": w.pem(), "CertificateType": "PEM"}); err != nil {
			return nil, fmt.Errorf("add a certificate to %s: %w", w.database, err)
		}
	}
	return missing, nil
}

// certificateLists are the collections of certificates, by database.
func certificateLists(c *gofish.APIClient, databases string) (map[string]string, error) {
	all, err := members(c, databases)
	if err != nil {
		return nil, err
	}
	lists := map[string]string{}
	for _, at := range all {
		var d struct {
			ID           string `json:"Id"`
			DatabaseID   string `json:"DatabaseId"`
			Certificates ref
		}
		if err := fetch(c, at.Path, &d); err != nil {
			return nil, err
		}
		name := d.DatabaseID
		if name == "" {
			name = d.ID
		}
		if d.Certificates.Path != "" {
			lists[name] = d.Certificates.Path
		}
	}
	return lists, nil
}

// certificatesAt reads the certificates of a collection. Those in other forms than PEM are left out.
func certificatesAt(c *gofish.APIClient, at string) (list [][]byte, err error) {
	all, err := members(c, at)
	if err != nil {
		return nil, err
	}
	list = [][]byte{}
	for _, m := range all {
		var shown struct{ CertificateString string }
		if err := fetch(c, m.Path, &shown); err != nil {
			return nil, err
		}
		if block, _ := pem.Decode([]byte(shown.CertificateString)); block != nil {
			list = append(list, block.Bytes)
		}
	}
	return list, nil
}
