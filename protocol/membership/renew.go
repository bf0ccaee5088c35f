package membership

import (
	"context"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/ironyard/ironyard/protocol/join"
)

// How often members renew. Servers do it often, so that a member that is revoked is
// kept off soon; rackds so that a new key or server reaches them within a day. What
// they hold counts for much longer: central may be away for weeks.
const (
	serverRenews = time.Hour
	rackdRenews  = 24 * time.Hour
	renewAgain   = 10 * time.Minute // after a failure
)

func (m *Member) renewEvery() time.Duration {
	if m.RenewSeconds > 0 {
		return min(time.Duration(m.RenewSeconds)*time.Second, rackdRenews)
	}
	if m.Scope.Role == join.Rackd {
		return rackdRenews
	}
	return serverRenews
}

// challenges bounds how often one renewal is signed again: replicas of central whose keys are
// being replaced, or a renewal that another process did meanwhile.
const challenges = 3

// Renew renews everything in the folder under a new TLS key; the NATS key and a server's key
// for its cluster stay. changed says that there are things in it which programs read only when
// they start.
func (m *Member) Renew(ctx context.Context) (changed bool, err error) {
	release, err := m.lock(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	identity, err := os.ReadFile(m.Path(IdentityFile))
	if err != nil {
		return false, err
	}
	k, err := m.nextKeys()
	if err != nil {
		return false, err
	}
	var r join.Renewal
	if r.Certificate, _, err = certificateIn(string(identity)); err != nil {
		return false, fmt.Errorf("%s: %w", m.Path(IdentityFile), err)
	}
	if r.CSR, err = csr(k.TLS); err != nil {
		return false, err
	}
	if k.Route != "" {
		if r.RouteCSR, err = csr(k.Route); err != nil {
			return false, err
		}
	}
	g, err := m.ask(ctx, string(identity), r)
	if err != nil {
		return false, err
	}
	return m.accept(g, k, time.Now())
}

// ask sends a renewal, and sends it again with the challenge that central answers. A central
// that makes no challenges grants the first.
func (m *Member) ask(ctx context.Context, identity string, r join.Renewal) (g join.Grant, err error) {
	for range challenges + 1 {
		if err := sign(identity, &r); err != nil {
			return g, err
		}
		g, err = m.Central.Renew(ctx, r)
		var no *join.RefusedError
		if !errors.As(err, &no) || no.Challenge == "" {
			break
		}
		r.Challenge = no.Challenge
	}
	return g, err
}

// nextKeys are a new TLS key and those of the folder that stay. A server that joined before
// there were keys for clusters gets one.
func (m *Member) nextKeys() (k keys, err error) {
	if k.TLS, err = newTLSKey(); err != nil {
		return k, err
	}
	if creds, err := os.ReadFile(m.Path(CredentialsFile)); err == nil {
		pair, err := jwt.ParseDecoratedUserNKey(creds)
		if err != nil {
			return k, fmt.Errorf("%s: %w", m.Path(CredentialsFile), err)
		}
		seed, err := pair.Seed()
		if err != nil {
			return k, err
		}
		k.User = string(seed)
	}
	if m.Scope.Role == join.Rackd {
		return k, nil
	}
	text, err := os.ReadFile(m.Path(RouteFile))
	if errors.Is(err, fs.ErrNotExist) {
		k.Route, err = newTLSKey()
		return k, err
	}
	if err != nil {
		return k, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return k, fmt.Errorf("%s holds no key", m.Path(RouteFile))
	}
	k.Route = string(pem.EncodeToMemory(block))
	return k, nil
}

// due says how long to wait until the next renewal, every that long after the last,
// or a while after one that failed. spread, from 0 to 1, keeps members from coming all
// at once.
func due(now, renewed time.Time, every time.Duration, failed bool, spread float64) time.Duration {
	if failed {
		return time.Duration(float64(renewAgain) * (0.5 + spread))
	}
	wait := time.Duration(float64(every) * (0.9 + 0.2*spread))
	// A clock that was ahead when the member renewed, by hours or years, delays nothing.
	return min(wait, max(0, renewed.Add(wait).Sub(now)))
}

// lookEvery is how often KeepFresh looks whether another process has renewed the folder.
const lookEvery = 3 * time.Second

// KeepFresh renews the folder again and again until ctx ends. changed is called after a renewal
// that brought something which programs read only when they start, also if another process did
// it: an operator who does not want to wait. Each value from now, which may be nil, has it renew at once.
func (m *Member) KeepFresh(ctx context.Context, log *slog.Logger, now <-chan struct{}, changed func()) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	failed, had := false, m.read // another process may have renewed it since the program has read its files
	for {
		t := time.NewTimer(due(time.Now(), m.Renewed, m.renewEvery(), failed, rand.Float64()))
		if !m.waitFor(ctx, t.C, look.C, now) {
			t.Stop()
			return
		}
		t.Stop()
		if m.renewedElsewhere() {
			failed = false
		} else {
			failed = m.renewAndTell(ctx, log)
		}
		if ctx.Err() != nil {
			return
		}
		if has := m.contents(); has != had {
			had = has
			log.Info("membership renewed, with changes", "expires", m.Expires)
			changed()
		}
	}
}

// waitFor waits until the member is to renew, or another process has renewed it. It returns
// false when ctx ends.
func (m *Member) waitFor(ctx context.Context, due, look <-chan time.Time, now <-chan struct{}) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-due:
			return true
		case <-now:
			return true
		case <-look:
			if on, err := Open(m.Dir); err == nil && !on.Renewed.Equal(m.Renewed) {
				return true
			}
		}
	}
}

// renewedElsewhere takes over what another process has written, if it has.
func (m *Member) renewedElsewhere() bool {
	on, err := Open(m.Dir)
	if err != nil || on.Renewed.Equal(m.Renewed) {
		return false
	}
	*m = *on
	return true
}

// contents stands for the files that programs read only when they start.
func (m *Member) contents() (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, file := range []string{KeysFile, trustFile} {
		text, _ := os.ReadFile(m.Path(file)) // one that is missing is empty
		h.Write(append(text, 0))
	}
	h.Sum(sum[:0])
	return sum
}

// renewAndTell renews, logs what came of it and reports whether it failed.
func (m *Member) renewAndTell(ctx context.Context, log *slog.Logger) (failed bool) {
	_, err := m.Renew(ctx)
	var no *join.RefusedError
	switch {
	case err == nil:
		log.Debug("membership renewed", "expires", m.Expires)
		return false
	case ctx.Err() != nil:
	case errors.As(err, &no):
		log.Error("central refuses to renew this member", "member", m.Scope.String(), "expires", m.Expires, "error", err)
	default:
		log.Warn("membership not renewed, trying again", "expires", m.Expires, "error", err)
	}
	return true
}
