package seal

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Arguments of steps are JSON that drivers and agents define, so a secret may be of any kind and lie in
// a list. Each value under a secret's name is sealed as JSON; null, true and false hold no secret.

// SealArgs returns a copy of a step's arguments with each secret sealed under label, for the field
// where it lies. Nothing counts as sealed already: OpenArgs comes first.
func (k *Key) SealArgs(label Label, args map[string]any) (map[string]any, error) {
	return MapArgs(args, func(path string, v any) (any, error) { return k.SealArg(label, path, v) })
}

// SealArg seals the secret that lies at path among a step's arguments, as SealArgs does.
func (k *Key) SealArg(label Label, path string, secret any) (string, error) {
	plain, err := json.Marshal(secret)
	if err != nil {
		return "", err
	}
	return k.Seal(label.At(join(label.Field, path)), string(plain)), nil
}

// OpenArgs returns a copy of a step's arguments with each sealed secret as it was given.
func (k *Key) OpenArgs(label Label, args map[string]any) (map[string]any, error) {
	return mapArgs(label.Field, args, func(path string, v any) (any, error) {
		text, isText := v.(string)
		if !isText || !Sealed(text) {
			return v, nil
		}
		plain, err := k.Open(label.At(path), text)
		if err != nil {
			return nil, err
		}
		var open any
		err = json.Unmarshal([]byte(plain), &open)
		return open, err
	})
}

// SealedArgs reports whether a step's arguments hold something that is sealed.
func SealedArgs(args map[string]any) (sealed bool) {
	mapArgs("", args, func(_ string, v any) (any, error) {
		text, isText := v.(string)
		sealed = sealed || isText && Sealed(text)
		return v, nil
	})
	return sealed
}

// MapArgs returns a copy of a step's arguments with f's value in place of each secret; path is where
// that lies.
func MapArgs(args map[string]any, f func(path string, secret any) (any, error)) (map[string]any, error) {
	return mapArgs("", args, f)
}

func mapArgs(at string, args map[string]any, f func(path string, v any) (any, error)) (map[string]any, error) {
	if args == nil {
		return nil, nil
	}
	out := make(map[string]any, len(args))
	for name, v := range args {
		mapped, err := mapArg(name, join(at, name), v, f)
		if err != nil {
			return nil, fmt.Errorf("argument %s: %w", name, err)
		}
		out[name] = mapped
	}
	return out, nil
}

func mapArg(name, path string, v any, f func(path string, v any) (any, error)) (any, error) {
	if _, isBool := v.(bool); IsSecret(name) && v != nil && !isBool {
		return f(path, v)
	}
	switch v := v.(type) {
	case map[string]any:
		return mapArgs(path, v, f)
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			mapped, err := mapArg("", join(path, strconv.Itoa(i)), inner, f)
			if err != nil {
				return nil, err
			}
			out[i] = mapped
		}
		return out, nil
	}
	return v, nil
}

// CurrentArgs reports whether every secret among a step's arguments is sealed and opens under the newest
// generation; when not, OpenArgs and SealArgs bring it there.
func (k *Key) CurrentArgs(label Label, args map[string]any) bool {
	current := true
	mapArgs(label.Field, args, func(path string, v any) (any, error) {
		text, _ := v.(string)
		current = current && k.Current(label.At(path), text)
		return v, nil
	})
	return current
}
