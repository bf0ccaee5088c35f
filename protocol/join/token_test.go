package join

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func aToken() Token {
	return Token{URL: "https://central.example:6387", Fingerprint: strings.Repeat("ab", 32), ServerName: CentralName, ID: "01920000-0000-7000-8000-000000000000",
		Secret: NewSecret(), Expires: time.Unix(1_800_000_000, 0).UTC(), Scope: Scope{Role: Rackd, Site: "east", Group: "rack-a", FailoverOf: []string{"rack-b"}}}
}

func TestTokenComesBack(t *testing.T) {
	want := aToken()
	text := want.String()
	if strings.ContainsAny(text, " \t\n\"'$`\\") {
		t.Errorf("a shell would not take %s as one word", text)
	}
	for _, pasted := range []string{text, "  " + text + "\n", text[:40] + "\r\n " + text[40:]} {
		got, err := ParseToken(pasted)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", pasted, got, err)
		}
	}
}

func TestTokensThatAreNone(t *testing.T) {
	good := aToken().String()
	change := func(f func(*Token)) string {
		x := aToken()
		f(&x)
		return x.String()
	}
	for text, says := range map[string]string{
		"":                              "not a token",
		"hello":                         "not a token",
		good[:len(good)-7]:              "not whole",
		good[:30] + good[31:]:           "",
		prefix:                          "damaged",
		prefix + "!!!":                  "damaged",
		strings.Repeat("x", maxToken+1): "characters",
		change(func(x *Token) { x.URL = "http://central" }):                 "not https",
		change(func(x *Token) { x.URL = "https://" }):                       "not https",
		change(func(x *Token) { x.Fingerprint = "" }):                       "fingerprint",
		change(func(x *Token) { x.Secret = "short" }):                       "secret",
		change(func(x *Token) { x.ID = "" }):                                "secret",
		change(func(x *Token) { x.Scope.Group = "*" }):                      "conductor group",
		change(func(x *Token) { x.Scope = Scope{Role: "king", Site: "x"} }): "role",
	} {
		if _, err := ParseToken(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60q: %v, want an error that says %q", text, err, says)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(aToken().String())
	f.Add(prefix)
	f.Add(Token{}.String())
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err != nil {
			return
		}
		again, err := ParseToken(token.String())
		if err != nil || !reflect.DeepEqual(again, token) {
			t.Errorf("%q does not come back: %v", text, err)
		}
	})
}
