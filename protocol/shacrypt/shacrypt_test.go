package shacrypt

import (
	"os/exec"
	"strings"
	"testing"
)

// The hashes are those of libxcrypt 4.4 (Debian 12).
func TestHashesOfLibxcrypt(t *testing.T) {
	for _, c := range []struct{ password, hash string }{
		{"Hello world!", "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"},
		{"Hello world!", "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1"},
		{"Hello world!", "$5$rounds=10000$saltstringsaltst$3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA"},
		{"grün", "$6$rounds=1234$ab$PasFeEa5v5Jsn2Ubvl/4vlmtNJhHNu17XZQvUtaTkZbxzPv5S8EimWvo.a/3aiC5MehOfNxX0CDF1okKzQmI/."},
	} {
		if !Verify(c.hash, c.password) || Verify(c.hash, c.password+"!") {
			t.Errorf("%s is not judged right", c.hash)
		}
	}
}

// OpenSSL and this package agree, on passwords of all lengths around the digests' own.
func TestOpenSSLAgrees(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Fatal("openssl is needed to judge: ", err)
	}
	for _, flag := range []string{"-5", "-6"} {
		for _, password := range []string{"x", "open sesame", "grüße", strings.Repeat("a", 31), strings.Repeat("b", 32), strings.Repeat("c", 33), strings.Repeat("d", 64), strings.Repeat("e", 65), strings.Repeat("f", 200)} {
			cmd := exec.Command(openssl, "passwd", flag, "-salt", "saltstring", "-stdin")
			cmd.Stdin = strings.NewReader(password + "\n")
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			hash := strings.TrimSpace(string(out))
			if !Verify(hash, password) || Verify(hash, password+"x") || Verify(hash, "") {
				t.Errorf("openssl passwd %s of %d bytes: %s is not judged right", flag, len(password), hash)
			}
		}
	}
	mine, err := Hash("open sesame")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(openssl, "passwd", "-5", "-salt", strings.Split(mine, "$")[2], "-stdin")
	cmd.Stdin = strings.NewReader("open sesame\n")
	if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != mine {
		t.Errorf("Hash says %s, openssl %s, %v", mine, out, err)
	}
	if again, err := Hash("open sesame"); err != nil || again == mine {
		t.Errorf("two hashes of a password are the same, or there is none: %v", err)
	}
}

func TestRefusedHashes(t *testing.T) {
	for _, hash := range []string{"", "open sesame", "$1$salt$x", "$5$", "$5$salt", "$5$salt$short", "$5$rounds=999999999$salt$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8",
		"$5$rounds=x$salt$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8", "$5$aSaltThatIsTooLong$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8"} {
		err := Check(hash)
		if err == nil || Verify(hash, "") {
			t.Errorf("%q is taken for a hash", hash)
		} else if hash == "open sesame" && strings.Contains(err.Error(), hash) {
			t.Errorf("the error repeats what may be a password: %v", err)
		}
	}
	if _, err := Hash(strings.Repeat("x", MaxPassword+1)); err == nil {
		t.Error("a password of any length is hashed")
	}
}
