package enrol

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/join"
)

// alarmEvery bounds the lines in log and audit about one member's misused certificates:
// sending one costs its holder nothing. Each is counted.
const alarmEvery = time.Minute

// alarms tells operators of certificates that are shown though their members have left them
// behind. Safe for concurrent use.
type alarms struct {
	store *store.Store
	count func(join.Role)

	mu   sync.Mutex
	told map[string]time.Time // by member; as many as there are members at most
}

// OnMisuse has f called, besides log and audit, for each renewal with a certificate that its
// member has left behind. It is called before Handler.
func (a *Authority) OnMisuse(f func(join.Role)) { a.alarms.count = f }

// raise tells of a renewal from that address.
func (a *alarms) raise(ctx context.Context, log *slog.Logger, m *store.Member, from, reason string) {
	if a.count != nil {
		a.count(m.Scope.Role)
	}
	now := time.Now()
	a.mu.Lock()
	soon := now.Sub(a.told[m.ID]) < alarmEvery
	if !soon {
		a.told[m.ID] = now
	}
	a.mu.Unlock()
	if soon {
		return
	}
	log.Error("ALARM: a member's certificate was used that the member has left behind", "member", m.ID, "role", string(m.Scope.Role), "name", m.Scope.Name,
		"site", m.Scope.Site, "group", m.Scope.Group, "from", from, "reason", reason)
	client, _, err := net.SplitHostPort(from)
	if err != nil {
		client = from
	}
	err = a.store.AppendAudit(ctx, &store.Audit{At: now, Client: client, Action: "ironyard:member:renew", Method: http.MethodPost, Path: join.RenewPath,
		Resource: "member", Object: m.ID, Status: http.StatusForbidden, Result: store.Denied, Error: reason})
	if err != nil {
		log.Error("the misused certificate is not in the audit", "member", m.ID, "error", err)
	}
}
