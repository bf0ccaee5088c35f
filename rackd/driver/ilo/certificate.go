package ilo

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// The certificate of an iLO's own web server: a request for one is made in the iLO, which keeps the key. HPE's words.

const (
	argCSR  = "csr_params"
	argCert = "cert_file"
)

// subject are what an iLO takes of a request's subject; those of required it must have.
var (
	subject  = []string{"City", "CommonName", "Country", "OrgName", "OrgUnit", "State"}
	required = []string{"City", "CommonName", "OrgName", "State"}
)

// certificateSteps are those of Ironic's iLO driver, for cleanings.
func (m Management) certificateSteps(step func(string, driver.Flows, driver.StepKind, func(context.Context, *driver.Task) (driver.Outcome, error)) driver.Step) []driver.Step {
	csr := step("create_csr", driver.InClean, driver.Reattachable, m.createCSR)
	csr.Takes = map[string]driver.Argument{argCSR: {Required: true,
		Description: "The subject of the request: City, CommonName, OrgName and State; Country and OrgUnit may be given. The request is in the node's history, as base64 of its DER."}}
	csr.Check = func(n *node.Document, args map[string]any) error { _, err := subjectOf(n, args); return err }
	add := step("add_https_certificate", driver.InClean, driver.Reattachable, m.addCertificate)
	add.Takes = map[string]driver.Argument{argCert: {Required: true,
		Description: "The certificate, in PEM. Rackd reads no file and no URL for it. The iLO restarts with it, and rackd must trust it by then (ilo_verify_ca)."}}
	add.Check = func(n *node.Document, args map[string]any) error { _, err := certificateOf(n, args); return err }
	return []driver.Step{csr, add}
}

func subjectOf(n *node.Document, args map[string]any) (map[string]any, error) {
	given, _ := args[argCSR].(map[string]any)
	for _, name := range required {
		if text, is := given[name].(string); !is || text == "" {
			return nil, driver.Refuse("'%s' lacks %s. Step 'create_csr' is not executed for %s.", argCSR, name, n.UUID)
		}
	}
	for name, v := range given {
		if _, text := v.(string); !text || !slices.Contains(subject, name) {
			return nil, driver.Refuse("'%s' has %.40s, which is no text or no part of a subject: give %s.", argCSR, name, strings.Join(subject, ", "))
		}
	}
	return given, nil
}

// certificateOf is the first certificate of the argument, as PEM.
func certificateOf(n *node.Document, args map[string]any) (string, error) {
	text, _ := args[argCert].(string)
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return "", driver.Refuse("No valid certificate in '%s': give the PEM itself, for rackd reads no file and no URL. Step 'add_https_certificate' is not executed for %s.", argCert, n.UUID)
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "", driver.Refuse("The certificate in '%s' cannot be read: %v.", argCert, err)
		}
		return string(pem.EncodeToMemory(block)), nil
	}
}

// httpsCert is an iLO's resource of its certificate.
type httpsCert struct {
	Request string `json:"CertificateSigningRequest"`
	Actions map[string]struct {
		Target string `json:"target"`
	}
}

// certificate reads that resource.
func certificate(turn *redfish.Turn) (c httpsCert, at string, err error) {
	var manager struct {
		Oem struct {
			Hpe struct {
				Links struct{ SecurityService redfish.Link }
			}
		}
	}
	if _, err := turn.Manager(&manager); err != nil {
		return c, "", err
	}
	none := fmt.Errorf("it shows no certificate of its web server: %w", driver.ErrUnsupported)
	if manager.Oem.Hpe.Links.SecurityService.Path == "" {
		return c, "", none
	}
	var service struct {
		Links struct{ HttpsCert redfish.Link }
	}
	if err := turn.Read(manager.Oem.Hpe.Links.SecurityService.Path, &service); err != nil {
		return c, "", err
	}
	if at = service.Links.HttpsCert.Path; at == "" {
		return c, "", none
	}
	return c, at, turn.Read(at, &c)
}

// requesting is the handle of create_csr. It is saved before the order, which is given once.
type requesting struct {
	Asked bool `json:"asked,omitempty"`
	// Was is the request that the iLO showed before.
	Was   string `json:"was,omitempty"`
	Looks int    `json:"looks,omitempty"`
}

// An iLO makes a key for a request, which takes minutes.
const (
	csrEvery = 10 * time.Second
	csrLooks = 60
)

// createCSR has the iLO make a request for a certificate. It is done when the iLO shows another one than before.
func (m Management) createCSR(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	const doing = "create a request for a certificate"
	var h requesting
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of create_csr cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	if !h.Asked {
		about, err := subjectOf(t.Node, t.Args)
		if err != nil {
			return driver.Outcome{}, err
		}
		err = m.Turn(ctx, t.Fence, t.Node, doing, func(turn *redfish.Turn) error {
			now, _, err := certificate(turn)
			if err != nil {
				return err
			}
			target := now.Actions["#HpeHttpsCert.GenerateCSR"].Target
			if target == "" {
				return fmt.Errorf("it makes no requests for certificates: %w", driver.ErrUnsupported)
			}
			h.Asked, h.Was = true, now.Request
			if err := t.Record.SaveHandle(ctx, h); err != nil {
				return err
			}
			_, err = turn.Order(target, about)
			return err
		})
		if err != nil && h.Asked && !errors.Is(err, driver.ErrUnknown) && !errors.Is(err, driver.ErrFenced) { // it was refused
			return driver.Outcome{}, errors.Join(err, t.Record.SaveHandle(ctx, requesting{}))
		}
		if err != nil && !errors.Is(err, driver.ErrUnknown) {
			return driver.Outcome{}, err
		}
		return driver.Wait(csrEvery), nil
	}
	var now httpsCert
	err := m.Turn(ctx, nil, t.Node, doing, func(turn *redfish.Turn) (err error) { now, _, err = certificate(turn); return err })
	if err != nil {
		return driver.Outcome{}, err
	}
	if now.Request == "" || now.Request == h.Was {
		if h.Looks++; h.Looks >= csrLooks {
			return driver.Outcome{}, fmt.Errorf("node %s: %s: the iLO has shown none for %s: look at its log", t.Node.Label(), doing, csrLooks*csrEvery)
		}
		return driver.Wait(csrEvery), t.Record.SaveHandle(ctx, h)
	}
	block, _ := pem.Decode([]byte(now.Request))
	if block == nil {
		return driver.Outcome{}, fmt.Errorf("node %s: %s: what the iLO shows is no PEM", t.Node.Label(), doing)
	}
	t.Record.Phase("certificate request", base64.StdEncoding.EncodeToString(block.Bytes))
	return driver.Done(), nil
}

// addCertificate gives the iLO a certificate. It restarts with it.
func (m Management) addCertificate(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	text, err := certificateOf(t.Node, t.Args)
	if err != nil {
		return driver.Outcome{}, err
	}
	return m.ResetBMC(ctx, t, func(turn *redfish.Turn) (string, any, error) {
		now, _, err := certificate(turn)
		if err != nil {
			return "", nil, err
		}
		target := now.Actions["#HpeHttpsCert.ImportCertificate"].Target
		if target == "" {
			return "", nil, fmt.Errorf("it takes no certificate: %w", driver.ErrUnsupported)
		}
		return target, map[string]any{"Certificate": text}, nil
	})
}
