package store

import (
	"context"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/join"
)

// Member is a row of members: a server or a rackd that has joined. Among those that
// have not ended, a role and a name occur once.
type Member struct {
	ID    string
	Scope join.Scope
	// UserKey is the public half of its NATS key.
	UserKey   string
	JoinedAt  time.Time
	RenewedAt time.Time
	ExpiresAt time.Time // of its newest certificate
	EndedAt   time.Time // revoked, or replaced by another of its name; zero while it belongs
	// Certificate is the fingerprint of its newest certificate, CertificateBefore that of
	// the one whose place the newest took.
	Certificate       string
	CertificateBefore string
	// RouteKey is the hash of the key that a server shows to the others of its cluster.
	RouteKey string
}

var memberColumns = []column[Member]{
	{"id", key, func(m *Member) any { return &m.ID }},
	{"role", key, func(m *Member) any { return &m.Scope.Role }},
	{"site", key, func(m *Member) any { return &m.Scope.Site }},
	{"name", key, func(m *Member) any { return &m.Scope.Name }},
	{"scope", key, func(m *Member) any { return asObject(&m.Scope) }},
	{"user_key", key, func(m *Member) any { return &m.UserKey }},
	{"joined_at", key, func(m *Member) any { return &m.JoinedAt }},
	{"renewed_at", key, func(m *Member) any { return &m.RenewedAt }},
	{"expires_at", key, func(m *Member) any { return &m.ExpiresAt }},
	{"ended_at", key, func(m *Member) any { return &m.EndedAt }},
	{"certificate", key, func(m *Member) any { return &m.Certificate }},
	{"certificate_before", key, func(m *Member) any { return &m.CertificateBefore }},
	{"route_key", key, func(m *Member) any { return &m.RouteKey }},
}

var (
	selectMembers     = "SELECT " + names(memberColumns, "m.") + " FROM members m"
	selectMember      = register(selectMembers + " WHERE m.id = $1")
	selectMemberNamed = register(selectMembers + " WHERE m.role = $1 AND m.name = $2 AND m.ended_at = 0")
	pageMembers       = register(selectMembers + " WHERE m.id > $1 ORDER BY m.id LIMIT $2")
	membersOfSite     = register(selectMembers + " WHERE m.site = $1 ORDER BY m.role, m.id")
	insertMember      = register("INSERT INTO members (" + names(memberColumns, "") + ") VALUES (" + placeholders(1, len(memberColumns)) + ")")
	renewMember       = register("UPDATE members SET renewed_at = $2, expires_at = $3, certificate = $4, certificate_before = $5, route_key = $6 WHERE id = $1 AND ended_at = 0")
	endMember         = register("UPDATE members SET ended_at = $2 WHERE id = $1 AND ended_at = 0")
)

func readMembers(ctx context.Context, c conn, stmt string, args ...any) ([]*Member, error) {
	var list []*Member
	r, err := c.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		m := new(Member)
		list = append(list, m)
		return r.Scan(fields(memberColumns, m)...)
	})
	if err != nil {
		return nil, fmt.Errorf("read members: %w", err)
	}
	return list, nil
}

// Members returns up to limit members after an id, those that ended included, in
// the order in which they joined.
func (s *Store) Members(ctx context.Context, after string, limit int) ([]*Member, error) {
	return readMembers(ctx, s.engine, pageMembers, after, limit)
}

// SiteMembers returns all members of a site, those that ended included; of the site
// without a name, the hub's.
func (s *Store) SiteMembers(ctx context.Context, site string) ([]*Member, error) {
	return readMembers(ctx, s.engine, membersOfSite, site)
}

// Member returns a member, or ErrNotFound.
func (tx *Tx) Member(ctx context.Context, id string) (*Member, error) {
	return oneMember(ctx, tx.conn, selectMember, id)
}

// MemberNamed returns the member of that role and name that has not ended, or
// ErrNotFound.
func (tx *Tx) MemberNamed(ctx context.Context, role join.Role, name string) (*Member, error) {
	return oneMember(ctx, tx.conn, selectMemberNamed, string(role), name)
}

func oneMember(ctx context.Context, c conn, stmt string, args ...any) (*Member, error) {
	list, err := readMembers(ctx, c, stmt, args...)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("member %v: %w", args[len(args)-1], ErrNotFound)
	}
	return list[0], nil
}

// InsertMember adds a member. A name that is taken: *DuplicateError with Field
// "member".
func (tx *Tx) InsertMember(ctx context.Context, m *Member) error {
	if _, err := tx.conn.exec(ctx, insertMember, fields(memberColumns, m)...); err != nil {
		return fmt.Errorf("write %s: %w", m.Scope, tx.s.taken(err, func(string) string { return m.Scope.Name }))
	}
	return nil
}

// RenewMember records when a member's certificate was renewed, how long the new one counts,
// which one it is, and the member's RouteKey; ErrNotFound when it has ended.
func (tx *Tx) RenewMember(ctx context.Context, m *Member) error {
	return tx.onMember(ctx, "renew", m.ID, renewMember, m.ID, toMicros(m.RenewedAt), toMicros(m.ExpiresAt), m.Certificate, m.CertificateBefore, m.RouteKey)
}

// EndMember records that a member no longer belongs; ErrNotFound when it has ended.
func (tx *Tx) EndMember(ctx context.Context, id string) error {
	return tx.onMember(ctx, "end", id, endMember, id, tx.s.now().UnixMicro())
}

func (tx *Tx) onMember(ctx context.Context, what, id, stmt string, args ...any) error {
	n, err := tx.conn.exec(ctx, stmt, args...)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("%s member %s: %w", what, id, err)
	}
	return nil
}
