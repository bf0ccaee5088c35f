package agentdoor

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// newKey makes a key, and the identity that it stands for.
func newKey(t *testing.T) (*seal.Key, Identity) {
	t.Helper()
	k, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	id, err := NewIdentity(k)
	if err != nil {
		t.Fatal(err)
	}
	return k, id
}

// openDoor serves agents with the keys, and returns what it shows one that asks for a name.
func openDoor(t *testing.T, keys *seal.Keyring, own string) (ids *Identities, shown func(name string) string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	ids, err := NewIdentities(keys, own, log)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- New(&oneNode{}, func(error) int { return 500 }, strangers.New(strangers.Budget{}, nil, log), log).Serve(ctx, l, ids)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ids, func(name string) string {
		t.Helper()
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, ServerName: name})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return fmt.Sprintf("%x", sha256.Sum256(conn.ConnectionState().PeerCertificates[0].Raw))
	}
}

// A rackd that stands in for another group shows its agents the certificate they know.
func TestAgentsOfEachGroupSeeTheirCertificate(t *testing.T) {
	ownKey, own := newKey(t)
	otherKey, other := newKey(t)
	_, stranger := newKey(t)
	_, shown := openDoor(t, seal.NewKeyring("own", ownKey).With("other", otherKey), "Own")
	for _, c := range []struct{ asked, want string }{
		{agentapi.DoorName(own.Fingerprint), own.Fingerprint}, {agentapi.DoorName(other.Fingerprint), other.Fingerprint},
		{"r2." + agentapi.DoorName(other.Fingerprint), other.Fingerprint},
		{agentapi.DoorName(stranger.Fingerprint), own.Fingerprint}, {"", own.Fingerprint}, // other makes of agents say nothing
	} {
		if got := shown(c.asked); got != c.want {
			t.Errorf("asked for %q: certificate %s, want %s", c.asked, got, c.want)
		}
	}
}

// A door that is open follows its keys in the order in which docs/enrolment.md replaces them. While a
// key has two generations, an agent that was booted under either is served, here and at a neighbour
// whose keys are a step behind or ahead.
func TestAnOpenDoorFollowsItsKeys(t *testing.T) {
	oldKey, old := newKey(t)
	freshKey, fresh := newKey(t)
	otherKey, other := newKey(t)
	keys := seal.NewKeyring("own", oldKey).With("other", otherKey)
	ids, shown := openDoor(t, keys, "own")
	for _, step := range []struct {
		what              string
		key               *seal.Key
		boots, old, fresh Identity
	}{
		{"the old key alone", oldKey, old, old, old},
		{"the new one second", oldKey.WithOlder(freshKey), old, old, fresh},
		{"the new one first", freshKey.WithOlder(oldKey), fresh, old, fresh},
		{"the new key alone", freshKey, fresh, fresh, fresh},
	} {
		if err := keys.Adopt(seal.NewKeyring("own", step.key).With("other", otherKey)); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		for _, group := range []string{"OWN", "a group without a key"} {
			if got := ids.Of(group).Fingerprint; got != step.boots.Fingerprint {
				t.Errorf("%s: machines of %s that boot are told %s, want %s", step.what, group, got, step.boots.Fingerprint)
			}
		}
		for name, want := range map[string]Identity{"": step.boots, agentapi.DoorName(old.Fingerprint): step.old,
			agentapi.DoorName(fresh.Fingerprint): step.fresh, agentapi.DoorName(other.Fingerprint): other} {
			if got := shown(name); got != want.Fingerprint {
				t.Errorf("%s: asked for %q, the door shows %s, want %s", step.what, name, got, want.Fingerprint)
			}
		}
	}
}
