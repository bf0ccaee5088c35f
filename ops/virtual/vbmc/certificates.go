package vbmc

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const databasesPath = secureBootPath + "/SecureBootDatabases"

// databases are those of UEFI that hold certificates.
var databases = []string{"PK", "KEK", "db", "dbx"}

// withKeys answers by h with the certificates of the database that the path names.
func withKeys(h func(b *BMC, k KeyHolder, database string, all [][]byte, w http.ResponseWriter, r *http.Request)) handler {
	return withSecureBoot(func(b *BMC, s SecureBooter, w http.ResponseWriter, r *http.Request) {
		k, ok := s.(KeyHolder)
		database := r.PathValue("database")
		if !ok || !slices.Contains(databases, database) {
			notFound(w, r)
			return
		}
		all, err := k.Certificates(database)
		if err != nil {
			b.failed(w, "reading the certificates of "+database, err)
			return
		}
		h(b, k, database, all, w, r)
	})
}

func (b *BMC) listDatabases(s SecureBooter, w http.ResponseWriter, r *http.Request) {
	if _, ok := s.(KeyHolder); !ok {
		notFound(w, r)
		return
	}
	var members []string
	for _, d := range databases {
		members = append(members, databasesPath+"/"+d)
	}
	write(w, http.StatusOK, collection(databasesPath, "SecureBootDatabaseCollection", "UEFI Secure Boot Databases", members...))
}

func (b *BMC) showDatabase(_ KeyHolder, database string, _ [][]byte, w http.ResponseWriter, _ *http.Request) {
	path := databasesPath + "/" + database
	write(w, http.StatusOK, resource(path, "SecureBootDatabase.v1_0_0.SecureBootDatabase", database, "Secure Boot Database "+database, object{
		"DatabaseId": database, "Certificates": link(path + "/Certificates")}))
}

func certificatePath(database string, i int) string {
	return databasesPath + "/" + database + "/Certificates/" + strconv.Itoa(i+1)
}

func (b *BMC) listCertificates(_ KeyHolder, database string, all [][]byte, w http.ResponseWriter, _ *http.Request) {
	var members []string
	for i := range all {
		members = append(members, certificatePath(database, i))
	}
	write(w, http.StatusOK, collection(databasesPath+"/"+database+"/Certificates", "CertificateCollection", "Certificates of "+database, members...))
}

func (b *BMC) showCertificate(_ KeyHolder, database string, all [][]byte, w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || n < 1 || n > len(all) {
		notFound(w, r)
		return
	}
	write(w, http.StatusOK, certificate(database, n-1, all[n-1]))
}

func certificate(database string, i int, der []byte) object {
	o := object{"CertificateType": "PEM", "CertificateString": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
	if c, err := x509.ParseCertificate(der); err == nil {
		o["Subject"], o["Issuer"] = object{"CommonName": c.Subject.CommonName}, object{"CommonName": c.Issuer.CommonName}
		o["SerialNumber"] = c.SerialNumber.Text(16)
		o["ValidNotBefore"], o["ValidNotAfter"] = c.NotBefore.UTC().Format("2006-01-02T15:04:05Z"), c.NotAfter.UTC().Format("2006-01-02T15:04:05Z")
	}
	return resource(certificatePath(database, i), "Certificate.v1_2_0.Certificate", strconv.Itoa(i+1), "Certificate", o)
}

// addCertificate takes a certificate in PEM. It counts from the next start on.
func (b *BMC) addCertificate(k KeyHolder, database string, _ [][]byte, w http.ResponseWriter, r *http.Request) {
	body, ok := decodeAction(w, r)
	if !ok {
		return
	}
	var text, kind string
	if e := body.parameters("create a certificate", map[string]any{"CertificateString": &text, "CertificateType": &kind}, "CertificateString", "CertificateType"); e != nil {
		e.write(w)
		return
	}
	if e := inList("the property CertificateType", "PropertyValueNotInList", kind, []string{"PEM"}); e != nil {
		e.write(w)
		return
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" || strings.TrimSpace(string(rest)) != "" {
		refusal{http.StatusBadRequest, "PropertyValueFormatError", "CertificateString is not one certificate in PEM."}.write(w)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := k.AddCertificate(database, block.Bytes); err != nil {
		b.refused(w, "PropertyValueError", "adding a certificate to "+database, err)
		return
	}
	now, err := k.Certificates(database)
	i := slices.IndexFunc(now, func(der []byte) bool { return bytes.Equal(der, block.Bytes) })
	if err == nil && i < 0 {
		err = errors.New("the certificate is not there")
	}
	if err != nil {
		b.failed(w, "reading the certificates of "+database, err)
		return
	}
	w.Header().Set("Location", certificatePath(database, i))
	write(w, http.StatusCreated, certificate(database, i, now[i]))
}
