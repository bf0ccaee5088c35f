package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/protocol/seal"
)

// hidden is what answers show in place of a secret.
const hidden = "******"

// instanceSecrets are keys of instance_info that are hidden whatever they hold.
var instanceSecrets = []string{"configdrive", "image_url"}

// isSecret is seal.IsSecret, which looks for many words in a name, for names that come
// again with every node. What it remembers is bounded: names come from clients.
func isSecret(name string) bool {
	if known, ok := secretNames.Load(name); ok {
		return known.(bool)
	}
	secret := seal.IsSecret(name)
	if len(name) < 64 && secretCount.Add(1) <= 4096 {
		secretNames.Store(strings.Clone(name), secret)
	}
	return secret
}

var (
	secretNames sync.Map // name to bool
	secretCount atomic.Int64
)

// mask returns m with every secret hidden, however deep it lies, and the password in each address; m itself stays as it is.
func mask(m map[string]any) map[string]any {
	if !holdsSecret("", m) {
		return m
	}
	out, _ := maskValue("", m).(map[string]any)
	return out
}

func maskInstance(m map[string]any) map[string]any {
	out, copied := mask(m), false
	for _, key := range instanceSecrets {
		if v, there := out[key]; there && v != nil && v != "" {
			if !copied {
				out, copied = maps.Clone(out), true
			}
			out[key] = hidden
		}
	}
	return out
}

// maskValue masks what is in a field of that name. The members of a list have the list's.
func maskValue(name string, v any) any {
	switch v := v.(type) {
	case string:
		return seal.MaskAddresses(name, v, hidden)
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			if isSecret(key) && inner != nil {
				out[key] = hidden
			} else {
				out[key] = maskValue(key, inner)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = maskValue(name, inner)
		}
		return out
	}
	return v
}

// sealSecrets returns fields, as a client gave them, with the secrets sealed under label. field names
// them in errors. Where a client sends back the mask that it was shown, the value before
// (in old) stays; this is where we differ from Ironic, which stores the asterisks.
// A secret is a text or a number; it cannot lie in a list, where it could not be sealed.
func (s *Server) sealSecrets(label seal.Label, field string, fields, old map[string]any) (map[string]any, error) {
	clean, err := cleanSecrets(field, fields, old)
	if err != nil {
		return nil, err
	}
	if !seal.Holds(clean) {
		return clean, nil
	}
	return s.Key.SealFields(label, clean), nil
}

func cleanSecrets(path string, fields, old map[string]any) (map[string]any, error) {
	out, err := maps.Clone(fields), error(nil)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		at := path + "/" + key
		switch v := fields[key].(type) {
		case map[string]any:
			if isSecret(key) {
				return nil, wire.Invalid("%s names a secret, which must be a text, not an object", at)
			}
			before, _ := old[key].(map[string]any)
			inner, err := cleanSecrets(at, v, before)
			if err != nil {
				return nil, err
			}
			out[key] = inner
		case []any:
			if isSecret(key) || holdsSecret(key, v) {
				return nil, wire.Invalid("%s contains a secret in a list; a secret must be a field of its own", at)
			}
		case json.Number:
			if isSecret(key) {
				out[key] = v.String()
			}
		case string:
			before, known := old[key].(string)
			if !isSecret(key) {
				if out[key], err = cleanAddress(at, key, v, before); err != nil {
					return nil, err
				}
				continue
			}
			switch {
			case v == hidden && known:
				out[key] = before
			case v == hidden:
				return nil, wire.Invalid("%s is the mask that answers show for a secret, not a secret", at)
			case seal.Sealed(v) && v != before:
				return nil, wire.Invalid("%s must not begin with %q", at, strings.TrimSuffix(seal.Prefix, ":"))
			}
		}
	}
	return out, nil
}

// cleanAddress returns the text of a field, with the passwords of before where the client sends back the mask that it was shown in an
// address. Another address does not get that password.
func cleanAddress(at, key, text, before string) (string, error) {
	if !seal.HoldsMask(key, text, hidden) {
		return text, nil
	}
	if seal.MaskAddresses(key, before, hidden) != text {
		return "", wire.Invalid("%s has the mask that answers show for the password in an address, and is another address than before: send the password", at)
	}
	return before, nil
}

// cleanAddresses is cleanAddress for a field with all that is in it.
func cleanAddresses(at, key string, v, before any) (any, error) {
	var err error
	switch v := v.(type) {
	case string:
		was, _ := before.(string)
		return cleanAddress(at, key, v, was)
	case map[string]any:
		if v == nil {
			return v, nil
		}
		was, _ := before.(map[string]any)
		out := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if out[name], err = cleanAddresses(at+"/"+name, name, v[name], was[name]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		was, _ := before.([]any)
		out := make([]any, len(v))
		for i := range v {
			var one any
			if i < len(was) {
				one = was[i]
			}
			if out[i], err = cleanAddresses(fmt.Sprintf("%s/%d", at, i), key, v[i], one); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// holdsSecret reports whether a field of that name holds something to mask.
func holdsSecret(name string, v any) bool {
	switch v := v.(type) {
	case string:
		return seal.HoldsPassword(name, v)
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return holdsSecret(name, inner) })
	case map[string]any:
		for key, inner := range v {
			if isSecret(key) && inner != nil || holdsSecret(key, inner) {
				return true
			}
		}
	}
	return false
}
