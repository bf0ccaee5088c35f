package imagecache

import (
	"crypto/sha512"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestFindSum(t *testing.T) {
	a, b := sumOf("a"), sumOf("b")
	long := fmt.Sprintf("%x", sha512.Sum512([]byte("a")))
	for name, tc := range map[string]struct {
		text, algo, want string // want empty: refused
	}{
		"coreutils":         {b + "  other.img\n" + a + "  x.img\n", "", a},
		"binary":            {a + " *x.img\n", "sha256", a},
		"with folder":       {a + "  ./images/x.img\r\n", "", a},
		"comments":          {"# signed\n\n" + a + "  x.img", "", a},
		"bsd":               {"SHA256 (other.img) = " + b + "\nSHA256 (x.img) = " + a + "\n", "", a},
		"two algorithms":    {"SHA512 (x.img) = " + long + "\nSHA256 (x.img) = " + a + "\n", "sha256", a},
		"longer":            {a + "  x.img\n" + long + "  x.img\n", "sha512", long},
		"md5 first":         {a[:32] + "  x.img\n" + a + "  x.img\n", "", a},
		"alone":             {a + "\n", "", a},
		"of another":        {b + "  other.img\n", "", ""},
		"several nameless":  {a + "\n" + b + "\n", "", ""},
		"wrong algorithm":   {a + "  x.img\n", "sha512", ""},
		"unknown algorithm": {a + "  x.img\n", "md5", ""},
		"empty":             {"", "", ""},
		"page":              {"<html>not found</html>", "", ""},
	} {
		sum, err := findSum(tc.text, tc.algo, "x.img")
		if tc.want == "" && !errors.Is(err, ErrSource) || sum.value != tc.want {
			t.Errorf("%s: %q, %v; want %q", name, sum.value, err, tc.want)
		}
	}
}

func TestSumsByURL(t *testing.T) {
	o := newOrigin(t)
	c, src := openCache(t, Config{}), o.put("/images/x.img", 1000)
	want := src.HashValue
	o.images["/images/SHA256SUMS"] = sumOf("other") + "  y.img\n" + want + "  x.img\n"
	src.HashValue = o.URL + "/images/SHA256SUMS"
	if e := mustEnsure(t, c, src); e.HashAlgo != "sha256" || e.HashValue != want {
		t.Errorf("%+v", e)
	}
}

// Who deploys a node may name any server that this rackd reaches as that of a file of checksums. Errors stand in the node, and more
// people read them there. So an answer that is no list is not repeated.
func TestAnAnswerThatIsNoListIsNotTold(t *testing.T) {
	o := newOrigin(t)
	c, src := openCache(t, Config{}), o.put("/images/x.img", 1000)
	for _, text := range []string{`{"auth":{"client_token":"hvs.s3cret"}}`, "hvs.s3cret", "<p>hvs.s3cret</p>\n<p>hvs.s3cret</p>", "hvs.s3cret  x.img\n", "SHA256 (x.img) = hvs.s3cret"} {
		o.images["/v1/secret"] = text
		for _, algo := range []string{"", "sha256"} {
			src.HashAlgo, src.HashValue = algo, o.URL+"/v1/secret"
			if _, err := c.Ensure(t.Context(), src); !errors.Is(err, ErrSource) || strings.Contains(err.Error(), "hvs") {
				t.Errorf("%s by %q: %v", text, algo, err)
			}
		}
	}
}

func FuzzFindSum(f *testing.F) {
	f.Add(sumOf("a")+"  x.img\n", "sha256")
	f.Add("SHA256 (x.img) = "+sumOf("a"), "")
	f.Add(sumOf("a"), "")
	f.Fuzz(func(t *testing.T, text, algo string) {
		sum, err := findSum(text, algo, "x.img")
		if err != nil && !errors.Is(err, ErrSource) {
			t.Errorf("%v, want ErrSource", err)
		}
		if err == nil && !ValidID(sum.id()) {
			t.Errorf("checksum %q is not valid", sum.id())
		}
	})
}
