package vbmc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"slices"
	"testing"

	"github.com/stmcginnis/gofish/schemas"
)

func TestSecureBoot(t *testing.T) {
	b, computer, _, s := connectEquipped(t)
	state, err := s.SecureBoot()
	if err != nil || state == nil || state.SecureBootEnable || state.SecureBootMode != "SetupMode" || state.SecureBootCurrentBoot != "Disabled" {
		t.Fatalf("secure boot %+v, %v", state, err)
	}
	refuses(t, b, "PATCH", secureBootPath, `{"SecureBootEnable":true}`, 400, "SecureBootEnable", "there is no platform key")
	refuses(t, b, "PATCH", secureBootPath, `{"SecureBootMode":"UserMode"}`, 400, "SecureBootMode is a read-only")
	refuses(t, b, "PATCH", secureBootPath, `{"SecureBootEnable":"yes"}`, 400, "SecureBootEnable")
	for _, kind := range []schemas.ResetKeysType{schemas.DeletePKResetKeysType, schemas.DeleteAllKeysResetKeysType, schemas.ResetAllKeysToDefaultResetKeysType} {
		if _, err := state.ResetKeys(kind); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if !slices.Equal(computer.resets, []KeyReset{NoPlatformKey, NoKeys, DefaultKeys}) {
		t.Errorf("resets %q", computer.resets)
	}
	refuses(t, b, "POST", secureBootPath+"/Actions/SecureBoot.ResetKeys", `{"ResetKeysType":"DeleteSome"}`, 400, "DeleteSome", "DeletePK")
	refuses(t, b, "POST", secureBootPath+"/Actions/SecureBoot.ResetKeys", `{}`, 400, "ResetKeysType")
	state, err = s.SecureBoot()
	if err != nil || state.SecureBootMode != "UserMode" {
		t.Fatalf("after the keys: %+v, %v", state, err)
	}
	state.SecureBootEnable = true
	if err := state.Update(); err != nil || !computer.secure.Next {
		t.Errorf("switched on: %t, %v", computer.secure.Next, err)
	}
	computer.secure.Now, computer.secure.Problem = true, "the store is full"
	if got := body(t, b, secureBootPath); got["SecureBootCurrentBoot"] != "Disabled" || got["SecureBootEnable"] != true || got["SecureBootEnable@Message.ExtendedInfo"] == nil {
		t.Errorf("a machine that is off, whose start had a problem: %v", got)
	}
	computer.on = true
	if got := body(t, b, secureBootPath); got["SecureBootCurrentBoot"] != "Enabled" {
		t.Errorf("a machine that is on: %v", got)
	}
}

func TestSecureBootDatabases(t *testing.T) {
	b, computer, c, _ := connectEquipped(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(77)}
	template.Subject.CommonName = "fleet"
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{"CertificateType": "PEM", "CertificateString": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))})
	if err != nil {
		t.Fatal(err)
	}
	w := ask(b, "POST", databasesPath+"/db/Certificates", string(text))
	if w.Code != http.StatusCreated || w.Header().Get("Location") != databasesPath+"/db/Certificates/1" || len(computer.certificates["db"]) != 1 {
		t.Fatalf("adding a certificate: %d %s", w.Code, w.Body)
	}
	database, err := schemas.GetSecureBootDatabase(c, databasesPath+"/db")
	if err != nil || database.DatabaseID != "" && database.DatabaseID != "db" {
		t.Fatalf("database %+v, %v", database, err)
	}
	certificates, err := database.Certificates()
	if err != nil || len(certificates) != 1 || certificates[0].Subject.CommonName != "fleet" {
		t.Errorf("certificates %v, %v", certificates, err)
	}
	refuses(t, b, "POST", databasesPath+"/db/Certificates", `{"CertificateType":"PKCS7","CertificateString":"x"}`, 400, "CertificateType")
	refuses(t, b, "POST", databasesPath+"/db/Certificates", `{"CertificateType":"PEM","CertificateString":"x"}`, 400, "CertificateString")
	refuses(t, b, "POST", databasesPath+"/db/Certificates", `{"CertificateType":"PEM"}`, 400, "CertificateString")
	for _, path := range []string{databasesPath + "/dbr", databasesPath + "/db/Certificates/2", databasesPath + "/db/Certificates/x"} {
		refuses(t, b, "GET", path, "", 404)
	}
}
