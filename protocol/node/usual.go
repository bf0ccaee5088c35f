package node

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/jsontext"
)

// Documents are opened far more often than they are read, and nearly all have the usual form, as Append writes it. What is here
// reads that form without reflection; false: the form is another, and encoding/json is asked.

// opened is what Open reads.
type opened struct {
	Form int             `json:"form"`
	Key  string          `json:"key"`
	Code string          `json:"code"`
	Node json.RawMessage `json:"node"`
}

func (o *opened) usual(body string) bool {
	return jsontext.Members(body, func(name, raw string) bool {
		switch name {
		case "form":
			return readNumber(raw, &o.Form)
		case "key":
			return readText(raw, &o.Key)
		case "code":
			return readText(raw, &o.Code)
		case "node":
			o.Node = json.RawMessage(raw)
			return strings.HasPrefix(raw, "{")
		}
		return true
	})
}

func (s *Summary) usual(node string) bool {
	return jsontext.Members(node, func(name, raw string) bool {
		switch name {
		case "uuid":
			return readText(raw, &s.UUID)
		case "driver":
			return readText(raw, &s.Driver)
		case "group":
			return readText(raw, &s.Group)
		case "console_enabled":
			return readBool(raw, &s.ConsoleEnabled)
		case "instance_files": // few have them
			return s.InstanceFiles == nil && json.Unmarshal([]byte(raw), &s.InstanceFiles) == nil && s.InstanceFiles != nil
		case "ports":
			twice := s.Ports != nil // encoding/json mixes both
			s.Ports = []Port{}
			return !twice && jsontext.Items(raw, func(raw string) bool {
				var p Port
				ok := p.usual(raw)
				s.Ports = append(s.Ports, p)
				return ok
			})
		}
		return true
	})
}

func (p *Port) usual(port string) bool {
	return jsontext.Members(port, func(name, raw string) bool {
		switch name {
		case "uuid":
			return readText(raw, &p.UUID)
		case "address":
			return readText(raw, &p.Address)
		case "pxe_enabled":
			return readBool(raw, &p.PXEEnabled)
		}
		return true
	})
}

// revised is what RevisionOf reads.
type revised struct {
	Form int       `json:"form"`
	Node *revision `json:"node"`
}

type revision struct {
	UUID     string `json:"uuid"`
	Revision int64  `json:"revision"`
}

func (r *revised) usual(body string) bool {
	return jsontext.Members(body, func(name, raw string) bool {
		switch name {
		case "form":
			return readNumber(raw, &r.Form)
		case "node":
			twice := r.Node != nil
			r.Node = new(revision)
			return !twice && jsontext.Members(raw, func(name, raw string) bool {
				switch name {
				case "uuid":
					return readText(raw, &r.Node.UUID)
				case "revision":
					return readNumber(raw, &r.Node.Revision)
				}
				return true
			})
		}
		return true
	})
}

// usually reads body in the usual form, else with encoding/json.
func usually[T any, P interface {
	*T
	usual(string) bool
}](body string) (v T, err error) {
	if P(&v).usual(body) {
		return v, nil
	}
	var other T
	err = json.Unmarshal([]byte(body), &other)
	return other, err
}

// readText reads a text that keeps nothing else in memory.
func readText(raw string, into *string) bool {
	s, ok := jsontext.Text(raw)
	*into = strings.Clone(s)
	return ok
}

func readNumber[N int | int64](raw string, into *N) bool {
	n, err := strconv.ParseInt(raw, 10, 64)
	*into = N(n)
	return err == nil && int64(*into) == n
}

func readBool(raw string, into *bool) bool {
	*into = raw == "true"
	return *into || raw == "false"
}
