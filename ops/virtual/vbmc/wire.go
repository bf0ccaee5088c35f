package vbmc

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

// object is a JSON object of the service.
type object map[string]any

func resource(path, typ, id, name string, rest object) object {
	o := object{"@odata.id": path, "@odata.type": "#" + typ, "Id": id, "Name": name}
	for k, v := range rest {
		o[k] = v
	}
	return o
}

func link(path string) object { return object{"@odata.id": path} }

func collection(path, typ, name string, members ...string) object {
	links := []object{}
	for _, m := range members {
		links = append(links, link(m))
	}
	return object{
		"@odata.id": path, "@odata.type": "#" + typ + "." + typ, "Name": name,
		"Members": links, "Members@odata.count": len(links),
	}
}

// etag names the state of a resource by its content.
func etag(o object) string {
	data, _ := json.Marshal(o) // maps of strings and numbers always marshal
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

func write(w http.ResponseWriter, status int, o object) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("OData-Version", "4.0")
	h.Set("Cache-Control", "no-cache")
	if status == http.StatusOK {
		tag := etag(o)
		o["@odata.etag"] = tag
		h.Set("ETag", tag)
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(o) // a client that left needs no answer
}

// refusal is an error answer in the form of DSP0266, "Error responses".
type refusal struct {
	status        int
	message, text string
}

var unauthorized = refusal{http.StatusUnauthorized, "NoValidSession", "There is no valid session established with the implementation."}

func (e refusal) write(w http.ResponseWriter) {
	write(w, e.status, object{"error": object{
		"code": registry + e.message, "message": e.text,
		"@Message.ExtendedInfo": []object{message("Critical", e.message, e.text)},
	}})
}

// registry is where the messages are from (DSP2065).
const registry = "Base.1.8."

func message(severity, id, text string) object {
	return object{
		"@odata.type": "#Message.v1_1_1.Message", "MessageId": registry + id, "Message": text,
		"MessageArgs": []string{}, "Severity": severity, "Resolution": "See the message.",
	}
}

func notFound(w http.ResponseWriter, r *http.Request) {
	refusal{http.StatusNotFound, "ResourceMissingAtURI", "The resource at the URI " + r.URL.Path + " was not found."}.write(w)
}

// decode reads a JSON object; on failure it has answered and returns false.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	err := d.Decode(into)
	if err == nil {
		if _, trailing := d.Token(); !errors.Is(trailing, io.EOF) {
			err = errors.New("data after the object")
		}
	}
	if err != nil {
		refusal{http.StatusBadRequest, "MalformedJSON", "The request body could not be understood: " + strings.ReplaceAll(err.Error(), `"`, "'")}.write(w)
		return false
	}
	return true
}
