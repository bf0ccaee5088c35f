package store

import (
	"context"
	"fmt"
	"time"
)

// Conductor is a row of conductors: a rackd that serves the fleet, or has served it.
type Conductor struct {
	Name    string
	Group   string
	Drivers []string  // hardware types
	Created time.Time // when it was first noted
	Updated time.Time // its newest sign of life that was noted
}

var conductorColumns = []column[Conductor]{
	{"name", key, func(c *Conductor) any { return &c.Name }},
	{"conductor_group", intent, func(c *Conductor) any { return &c.Group }},
	{"drivers", intent, func(c *Conductor) any { return asObject(&c.Drivers) }},
	{"created_at", key, func(c *Conductor) any { return &c.Created }},
	{"updated_at", intent, func(c *Conductor) any { return &c.Updated }},
}

var (
	selectConductors = register("SELECT " + names(conductorColumns, "c.") + " FROM conductors c WHERE c.name > $1 ORDER BY c.name")
	upsertConductor  = register("INSERT INTO conductors (" + names(conductorColumns, "") + ") VALUES (" + placeholders(1, len(conductorColumns)) + ") " +
		"ON CONFLICT (name) DO UPDATE SET conductor_group = excluded.conductor_group, drivers = excluded.drivers, updated_at = excluded.updated_at " +
		"WHERE conductors.updated_at < excluded.updated_at OR conductors.updated_at > $" + fmt.Sprint(len(conductorColumns)+1))
	newestConductor  = register("SELECT c.updated_at FROM conductors c ORDER BY c.updated_at DESC LIMIT 1")
	forgetConductors = register("DELETE FROM conductors WHERE updated_at < $1")
)

// Conductors returns all rows, in order of name.
func (s *Store) Conductors(ctx context.Context) ([]*Conductor, error) {
	var list []*Conductor
	r, err := s.engine.query(ctx, selectConductors, "")
	err = scanAll(r, err, func(r rows) error {
		c := new(Conductor)
		list = append(list, c)
		return r.Scan(fields(conductorColumns, c)...)
	})
	if err != nil {
		return nil, fmt.Errorf("read conductors: %w", err)
	}
	return list, nil
}

// NewestConductor is when the rackds that were noted gave their last sign of life; zero: no rackd was noted.
func (s *Store) NewestConductor(ctx context.Context) (newest time.Time, err error) {
	r, err := s.engine.query(ctx, newestConductor)
	err = scanAll(r, err, func(r rows) error {
		var micros int64
		if err := r.Scan(&micros); err != nil || micros == 0 {
			return err
		}
		newest = time.UnixMicro(micros).UTC()
		return nil
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("read the newest conductor: %w", err)
	}
	return newest, nil
}

// Clock is the time by the clock of the database's host.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	now, err := s.engine.clock(ctx)
	if err == nil && now.IsZero() {
		now = s.now()
	}
	return now, err
}

// NoteConductor writes how a rackd was at c.Updated, unless something newer is there that is not newer than wrong, too. When
// it was first noted stays.
func (tx *Tx) NoteConductor(ctx context.Context, c *Conductor, wrong time.Time) error {
	if _, err := tx.conn.exec(ctx, upsertConductor, append(fields(conductorColumns, c), wrong.UnixMicro())...); err != nil {
		return fmt.Errorf("note conductor %s: %w", c.Name, err)
	}
	return nil
}

// ForgetConductors removes the rows whose newest sign of life is older than before.
func (tx *Tx) ForgetConductors(ctx context.Context, before time.Time) error {
	if _, err := tx.conn.exec(ctx, forgetConductors, before.UnixMicro()); err != nil {
		return fmt.Errorf("forget conductors: %w", err)
	}
	return nil
}
