package verdict

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/ops/virtual/fleet/control"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

// Database reads central's tables in one snapshot.
func (e *Evidence) Database(ctx context.Context, c *pgx.Conn) error {
	return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		if e.Nodes, err = table(ctx, tx, `SELECT uuid, name, driver, conductor_group, instance_uuid, generation, observed_generation, provision_state,
			target_provision_state, observed_state, observed_target, observed_epoch, last_error, observed_error, power_state, target_power_state,
			maintenance, instance_info, ARRAY(SELECT address FROM ports WHERE node = nodes.uuid ORDER BY address) FROM nodes ORDER BY name`,
			func(n *Node, scan func(...any) error) error {
				var instance string
				err := scan(&n.UUID, &n.Name, &n.Driver, &n.Group, &n.InstanceUUID, &n.Generation, &n.Observed, &n.State, &n.Target, &n.ObservedState,
					&n.ObservedTarget, &n.Epoch, &n.LastError, &n.ObservedError, &n.Power, &n.PowerTarget, &n.Maintenance, &instance, &n.MACs)
				n.Image = imageOf(instance)
				return err
			}); err != nil {
			return err
		}
		if e.Works, err = table(ctx, tx, `SELECT id, node, request_id, state, error, generation, verb, requested_at, ended_at FROM works ORDER BY node, generation`,
			func(w *Work, scan func(...any) error) error {
				return scan(&w.ID, &w.Node, &w.RequestID, &w.State, &w.Error, &w.Generation, &w.Verb, micros{&w.Requested}, micros{&w.Ended})
			}); err != nil {
			return err
		}
		// This is the order in which rows were written, also where the clock of a replica has stepped: ids begin with it, revisions do not.
		if e.History, err = table(ctx, tx, `SELECT uuid, node, work, event_type, event, conductor, created_at FROM node_history ORDER BY revision, uuid`,
			func(h *Entry, scan func(...any) error) error {
				return scan(&h.ID, &h.Node, &h.Work, &h.Kind, &h.Text, &h.Conductor, micros{&h.At})
			}); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT count(*) FROM outbox").Scan(&e.Outbox)
	})
}

// imageOf is the checksum in a node's instance_info, empty for none.
func imageOf(instance string) string {
	var info struct {
		Sum string `json:"image_os_hash_value"`
	}
	if json.Unmarshal([]byte(instance), &info) != nil {
		return ""
	}
	return info.Sum
}

func table[T any](ctx context.Context, tx pgx.Tx, query string, read func(*T, func(...any) error) error) (list []T, err error) {
	rows, err := tx.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var row T
		if err := read(&row, rows.Scan); err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

// micros reads a time as the database keeps it: microseconds since 1970, 0 for none.
type micros struct{ t *time.Time }

// ScanInt64 implements pgtype.Int64Scanner.
func (m micros) ScanInt64(v pgtype.Int8) error {
	*m.t = time.Time{}
	if v.Int64 != 0 {
		*m.t = time.UnixMicro(v.Int64).UTC()
	}
	return nil
}

// Fleet reads the site's machines and lets them audit themselves.
func (s *Site) Fleet(ctx context.Context, c *control.Client) (err error) {
	if s.Machines, err = c.Machines(ctx); err != nil {
		return err
	}
	s.Audit, err = c.Audit(ctx)
	return err
}

// Bus reads all that lies on a site's bus.
func (s *Site) Bus(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if err := s.events(ctx, nc); err != nil {
		return fmt.Errorf("events of site %s: %w", s.Name, err)
	}
	if s.Nodes, err = documents(ctx, js, bus.NodesBucket, nodeOf); err != nil {
		return err
	}
	if s.Work, err = documents(ctx, js, bus.WorkBucket, asJSON[work.Document]); err != nil {
		return err
	}
	s.Groups, err = documents(ctx, js, bus.GroupsBucket, asJSON[bus.Group])
	return err
}

// events reads the whole stream by a push consumer, which goes on by itself when a
// server or a message on the way is lost.
func (s *Site) events(ctx context.Context, nc *nats.Conn) error {
	js, err := nc.JetStream()
	if err != nil {
		return err
	}
	info, err := js.StreamInfo(bus.EventsStream, nats.Context(ctx))
	if err != nil {
		return err
	}
	s.First = info.State.FirstSeq
	sub, err := js.SubscribeSync("EVENTS.>", nats.BindStream(bus.EventsStream), nats.OrderedConsumer(), nats.Context(ctx))
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	for left := info.State.Msgs; left > 0; left-- {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("%d events could not be read: %w", left, err)
		}
		var ev work.Event
		if err := json.Unmarshal(m.Data, &ev); err != nil {
			return fmt.Errorf("event %s: %w", m.Data, err)
		}
		s.Events = append(s.Events, ev)
	}
	return nil
}

// documents reads a bucket, by key.
func documents[T any](ctx context.Context, js jetstream.JetStream, bucket string, read func(jetstream.KeyValueEntry) (T, error)) (map[string]T, error) {
	kv, err := js.KeyValue(ctx, bucket)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	watch, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	defer watch.Stop()
	list := map[string]T{}
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("bucket %s: %w", bucket, ctx.Err())
		case e, open := <-watch.Updates():
			switch {
			case !open:
				return nil, fmt.Errorf("bucket %s: the watch ended", bucket)
			case e == nil:
				return list, nil
			}
			doc, err := read(e)
			if err != nil {
				return nil, fmt.Errorf("bucket %s, key %s: %w", bucket, e.Key(), err)
			}
			list[e.Key()] = doc
		}
	}
}

// asJSON reads a value that is JSON.
func asJSON[T any](e jetstream.KeyValueEntry) (doc T, err error) {
	err = json.Unmarshal(e.Value(), &doc)
	return doc, err
}

// nodeOf reads a node's document.
func nodeOf(e jetstream.KeyValueEntry) (doc node.Document, err error) {
	d, err := node.Read(bus.NodeOfKey(e.Key()), e.Value())
	if err != nil {
		return doc, err
	}
	return *d, nil
}
