package auth

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"
)

// Users are the names of a file of htpasswd's and the hashes of their passwords.
type Users map[string][]byte

// ParseUsers reads a file as "htpasswd -B" writes it: NAME:HASH, one a line, bcrypt only.
// Errors name the line, never what it says.
func ParseUsers(text []byte) (Users, error) {
	users := Users{}
	for i, line := range bytes.Split(text, []byte("\n")) {
		entry := strings.TrimSpace(string(line))
		if entry == "" || strings.HasPrefix(entry, "#") {
			continue
		}
		name, hash, found := strings.Cut(entry, ":")
		if !found || name == "" {
			return nil, fmt.Errorf("line %d: want NAME:HASH", i+1)
		}
		if !utf8.ValidString(name) || strings.ContainsRune(name, 0) { // which could not be recorded
			return nil, fmt.Errorf("line %d: the name is not written in UTF-8", i+1)
		}
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return nil, fmt.Errorf("line %d: the password of %q is not hashed with bcrypt (htpasswd -B does so)", i+1, name)
		}
		if users[name] != nil {
			return nil, fmt.Errorf("line %d: user %q is listed twice", i+1, name)
		}
		users[name] = []byte(hash)
	}
	if len(users) == 0 {
		return nil, fmt.Errorf("it names no user, so that no caller could log in")
	}
	return users, nil
}
