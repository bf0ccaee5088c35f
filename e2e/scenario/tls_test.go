package scenario

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/uefivars"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
	"github.com/ironyard/ironyard/protocol/provision"
)

// A machine's firmware trusts the rack's authority, and loads by TLS what DHCP or its BMC names: the ramdisk as one program, iPXE, and an
// image. Agent, image and instance follow as ever. make hardware runs it.
func TestHTTPBootByTLS(t *testing.T) {
	needsTime(t)
	const name = "http-0"
	ctx := limit(t, 15*time.Minute)
	o := theRack.Operator
	authority, certificate, key := certificates(t)
	withMore(ctx, t, "--https-certificate", certificate, "--https-key", key)
	if err := theRack.Serving.Machines[name].EditVariables(func(s *uefivars.Store) error { return s.SetTLSAuthorities(uuid.New(), authority) }); err != nil {
		t.Fatal(err)
	}
	for _, boot := range []string{"http", "http-ipxe", "redfish-https"} {
		t.Run(boot, func(t *testing.T) {
			id := enrolled(ctx, t, name, byMedium(boot))
			if err := o.MakeAvailable(ctx, id); err != nil {
				t.Fatal(err)
			}
			if err := o.SetImage(ctx, id, qcow2()); err != nil {
				t.Fatal(err)
			}
			console, began := consoleFromNow(t, name), time.Now()
			deployed(ctx, t, id, name)
			t.Logf("%.0f s from the request to the instance's words", time.Since(began).Seconds())
			line, err := console.Wait(ctx, fromURI)
			if err != nil {
				t.Fatalf("the console names no URI: %v", err)
			}
			if t.Log(strings.TrimSpace(line)); !strings.Contains(line, "https://") {
				t.Errorf("the firmware loads from %s", line)
			}
			if said := historyOf(ctx, t, id); boot == "http" && !strings.Contains(said, "MB by HTTPS") {
				t.Errorf("the history does not say how the ramdisk came:\n%s", said)
			}
			undeployed(ctx, t, id)
		})
	}
}

// fromURI is the line in which firmware says what it loads.
var fromURI = regexp.MustCompile(`URI: \S+|Uri\(\S+\)`)

// withMore starts the rackds with more arguments until the test ends.
func withMore(ctx context.Context, t *testing.T, more ...string) {
	t.Helper()
	restartAll(ctx, t, more...)
	t.Cleanup(func() { restartAll(context.WithoutCancel(ctx), t) })
}

// certificates makes an authority (DER), and files of a certificate for all rackds and of its key. Firmware of before 2023 takes RSA alone.
func certificates(t *testing.T) (authority []byte, certificate, key string) {
	t.Helper()
	keys := make([]*rsa.PrivateKey, 2)
	for i := range keys {
		var err error
		if keys[i], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			t.Fatal(err)
		}
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "rack"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	authority, err := x509.CreateCertificate(rand.Reader, ca, ca, keys[0].Public(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "rackd"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter}
	for _, d := range theRack.Rackds {
		leaf.IPAddresses = append(leaf.IPAddresses, net.IP(d.Address.AsSlice()))
	}
	body, err := x509.CreateCertificate(rand.Reader, leaf, ca, keys[1].Public(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(keys[1])
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "rackd.pem"), filepath.Join(dir, "rackd.key")
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: body}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return authority, certificate, key
}

// A machine's BMC loads the ramdisk's medium by TLS from rackd, whose certificate its drive was given and verifies. make hardware runs it.
func TestVirtualMediaByTLS(t *testing.T) {
	needsTime(t)
	const name = "uefi-0"
	ctx := limit(t, 8*time.Minute)
	o := theRack.Operator
	_, certificate, key := certificates(t)
	withMore(ctx, t, "--https-certificate", certificate, "--https-key", key)
	id := toMedium(ctx, t, name, func(m *operator.Machine) { m.DriverInfo["ironyard_media_https"] = "verify" })
	var mu sync.Mutex // of from, for the BMC asks from several goroutines
	var from []string
	bmc := theRack.BMC(name)
	bmc.Faults.Spoil(func(r *http.Request) vbmc.Spoilt {
		if in := bmc.Inserted(); strings.HasSuffix(r.URL.Path, "ComputerSystem.Reset") && in != "" {
			mu.Lock()
			defer mu.Unlock()
			from = append(from, in)
		}
		return vbmc.Sound
	})
	t.Cleanup(func() { bmc.Faults.Spoil(nil) })
	began := time.Now()
	if err := o.Ask(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.Active); err != nil {
		t.Fatal(err)
	}
	t.Logf("%.0f s from the request to the deployed node", time.Since(began).Seconds())
	bmc.Faults.Spoil(nil)
	mu.Lock()
	if len(from) == 0 || !strings.HasPrefix(from[0], "https://") {
		t.Errorf("the drive has had %q", from)
	}
	mu.Unlock()
	if got := len(bmc.Journal.Matching("/Certificates")); got == 0 {
		t.Error("the drive was given no certificate")
	}
	undeployed(ctx, t, id)
	empty(t, name)
}
