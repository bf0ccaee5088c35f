package seal

import (
	"strconv"
	"strings"
	"testing"
)

func TestGenerations(t *testing.T) {
	old, _ := GenerateKey()
	fresh, _ := GenerateKey()
	both, err := ParseKey("# since May\n" + fresh.Text() + "\r\n\n" + old.Text() + "\n")
	if err != nil {
		t.Fatal(err)
	}
	before := old.Seal(of("n"), "secret")
	if got, err := both.Open(of("n"), before); err != nil || got != "secret" {
		t.Errorf("sealed under the old generation: %q, %v", got, err)
	}
	after := both.Seal(of("n"), "secret")
	if _, err := old.Open(of("n"), after); err == nil {
		t.Error("sealed under the old generation, want the newest")
	}
	if both.Current(of("n"), before) || !both.Current(of("n"), after) {
		t.Error("Current does not tell the generations apart")
	}
	fields := old.SealFields(of("n"), map[string]any{"x": map[string]any{"redfish_password": "p"}, "a": 1})
	if both.CurrentFields(of("n"), fields) {
		t.Error("fields of the old generation count as current")
	}
	open, err := both.OpenFields(of("n"), fields)
	if err != nil {
		t.Fatal(err)
	}
	if again := both.SealFields(of("n"), open); !both.CurrentFields(of("n"), again) {
		t.Error("sealed again, and still not current")
	}
	group, _ := both.ForGroup("rack")
	oldGroup, _ := old.ForGroup("rack")
	if got, err := group.Open(of("n"), oldGroup.Seal(of("n"), "x")); err != nil || got != "x" {
		t.Errorf("the group's key lost the old generation: %q, %v", got, err)
	}
}

// What is remembered of one group, or of one set of generations, is not given to another.
func TestGroupsHaveKeysOfTheirOwn(t *testing.T) {
	old, _ := GenerateKey()
	fresh, _ := GenerateKey()
	sealed := map[string]string{}
	for _, group := range []string{"", "east", "west"} {
		key, err := fresh.ForGroup(group)
		if err != nil {
			t.Fatal(err)
		}
		sealed[group] = key.Seal(of("n"), "x")
	}
	both := fresh.WithOlder(old)
	for group, text := range sealed {
		for _, other := range []string{"", "east", "West", "WEST"} {
			key, _ := fresh.ForGroup(other)
			if _, err := key.Open(of("n"), text); (err == nil) != (group == strings.ToLower(other)) {
				t.Errorf("sealed for group %q, opened for %q: %v", group, other, err)
			}
		}
		if key, _ := both.ForGroup(group); len(key.Generations()) != 2 {
			t.Errorf("the key of group %q has %d generations, want 2", group, len(key.Generations()))
		}
	}
	for i := range 2 * maxGroupKeys {
		fresh.ForGroup(strconv.Itoa(i))
	}
	if n := len(fresh.groups.keys); n > maxGroupKeys {
		t.Errorf("the keys of %d groups are remembered", n)
	}
}

func TestTokenFitsAnyGeneration(t *testing.T) {
	old, _ := GenerateKey()
	fresh, _ := GenerateKey()
	stranger, _ := GenerateKey()
	both := fresh.WithOlder(old)
	for _, k := range []*Key{old, fresh} {
		if !both.TokenFits("n", "w", 7, k.Token("n", "w", 7)) {
			t.Error("a generation's token does not fit")
		}
	}
	for _, token := range []string{"", stranger.Token("n", "w", 7), old.Token("n", "other", 7), old.Token("other", "w", 7), old.Token("n", "w", 6), old.Token("n", "w", 0), old.BootID("n", "w", 7)} {
		if both.TokenFits("n", "w", 7, token) {
			t.Errorf("token %q fits", token)
		}
	}
	if fresh.TokenFits("n", "w", 7, old.Token("n", "w", 7)) {
		t.Error("a token of a generation that is gone fits")
	}
}

// The id of a boot is of that boot, node and work alone, whatever generation of the key it is of.
func TestBootIDIsOfOneBoot(t *testing.T) {
	old, _ := GenerateKey()
	fresh, _ := GenerateKey()
	both := fresh.WithOlder(old)
	for _, k := range []*Key{old, fresh} {
		if id := k.BootID("n", "w", 2); !both.BootIDFits("n", "w", 2, id) || len(id) != 22 {
			t.Errorf("id %q does not fit its boot", id)
		}
		for _, id := range []string{"", k.BootID("n", "w", 1), k.BootID("n", "v", 2), k.BootID("m", "w", 2), k.Token("n", "w", 2), k.Token("n", "w", 2)[:22]} {
			if both.BootIDFits("n", "w", 2, id) {
				t.Errorf("id %q fits", id)
			}
		}
	}
}

func TestOneGenerationCountsOnce(t *testing.T) {
	a, _ := GenerateKey()
	b, _ := GenerateKey()
	k := a.WithOlder(b, a, b.WithOlder(a))
	if n := len(k.Generations()); n != 2 || k.Text() != a.Text()+"\n"+b.Text() {
		t.Errorf("%d generations: %s", n, k.Text())
	}
}

func FuzzParseKey(f *testing.F) {
	k, _ := NewKey(make([]byte, 32))
	f.Add(k.Text())
	f.Add("# nothing\n")
	f.Add(k.Text() + ", " + k.Text())
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseKey(text)
		if err != nil {
			return
		}
		again, err := ParseKey(k.Text())
		if err != nil || again.Text() != k.Text() || !strings.Contains(again.Seal(of("n"), ""), Prefix) {
			t.Errorf("%q does not come back: %v", text, err)
		}
	})
}
