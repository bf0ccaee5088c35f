// Package busview shows what lies on a site's bus: the documents of its buckets, and the events that wait for central. Of config
// drives and of copies of consoles' logs it tells names and sizes.
//
// It may import protocol/bus. It reads and never writes. Secrets are sealed on the bus, and stay so.
package busview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
)

// Places are what Open takes.
var Places = []string{bus.NodesBucket, bus.WorkBucket, bus.AliveBucket, bus.GroupsBucket, bus.EventsStream, bus.ConfigDrives, bus.ConsolesBucket}

// Entry is one document.
type Entry struct {
	// Key is what Show finds it by: a key of the bucket, or an event's number.
	Key      string    `json:"key"`
	Revision uint64    `json:"revision"`
	Size     uint64    `json:"bytes"`
	Written  time.Time `json:"written_at"`
	// About is the subject of an event; empty otherwise.
	About string `json:"subject,omitempty"`
}

// Place is a bucket, the stream of events or the store of config drives. Safe for concurrent use.
type Place struct {
	name string
	js   jetstream.JetStream
}

// Open returns a place of the site's bus; site is a JetStream domain, empty for that of the server.
func Open(nc *nats.Conn, site, name string) (*Place, error) {
	upper := strings.ToUpper(name)
	for _, known := range Places {
		if known != upper {
			continue
		}
		js, err := jetstream.New(nc)
		if site != "" {
			js, err = jetstream.NewWithDomain(nc, site)
		}
		return &Place{known, js}, err
	}
	return nil, fmt.Errorf("the bus has no place %q: it has %s", name, strings.Join(Places, ", "))
}

// List returns what lies there, in the order in which it was written.
func (p *Place) List(ctx context.Context) (list []Entry, err error) {
	switch p.name {
	case bus.EventsStream:
		err = p.events(ctx, func(m jetstream.Msg, at *jetstream.MsgMetadata) {
			list = append(list, Entry{Key: strconv.FormatUint(at.Sequence.Stream, 10), Revision: at.Sequence.Stream, Size: uint64(len(m.Data())), Written: at.Timestamp, About: m.Subject()})
		})
	case bus.ConfigDrives:
		var store jetstream.ObjectStore
		if store, err = p.js.ObjectStore(ctx, p.name); err != nil {
			break
		}
		var all []*jetstream.ObjectInfo
		if all, err = store.List(ctx); errors.Is(err, jetstream.ErrNoObjectsFound) {
			err = nil
		}
		for _, o := range all {
			list = append(list, Entry{Key: o.Name, Size: o.Size, Written: o.ModTime})
		}
	default:
		err = p.documents(ctx, ">", func(e jetstream.KeyValueEntry) {
			list = append(list, Entry{Key: e.Key(), Revision: e.Revision(), Size: uint64(len(e.Value())), Written: e.Created()})
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", p.name, err)
	}
	return list, nil
}

// Show returns the document under a key, or of the node with that UUID. A config drive is not opened: it is sealed.
func (p *Place) Show(ctx context.Context, key string) (document json.RawMessage, err error) {
	switch p.name {
	case bus.EventsStream:
		n, err := strconv.ParseUint(key, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no number of an event", key)
		}
		stream, err := p.js.Stream(ctx, p.name)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", p.name, err)
		}
		m, err := stream.GetMsg(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("read event %d: %w", n, err)
		}
		return readable(key, m.Data)
	case bus.ConfigDrives:
		return nil, fmt.Errorf("config drive %s is sealed: only a rackd that has its group's key can open it", key)
	case bus.ConsolesBucket:
		return nil, fmt.Errorf("the copy %s of a console's log is sealed: `ironyard node console --log` shows what it holds", key)
	}
	filter := key
	if !strings.Contains(key, ".") && p.name != bus.GroupsBucket {
		filter = "*." + key
	}
	found := ""
	err = p.documents(ctx, filter, func(e jetstream.KeyValueEntry) { found, document = e.Key(), e.Value() })
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", key, p.name, err)
	}
	if found == "" {
		return nil, fmt.Errorf("%s has no document %q", p.name, key)
	}
	return readable(found, document)
}

func readable(key string, body []byte) (json.RawMessage, error) {
	if !json.Valid(body) {
		return nil, fmt.Errorf("%s is no JSON; it begins with %.40q: another program has written it", key, body)
	}
	return body, nil
}

// documents calls f with the documents of a bucket whose keys fit.
func (p *Place) documents(ctx context.Context, filter string, f func(jetstream.KeyValueEntry)) error {
	kv, err := p.js.KeyValue(ctx, p.name)
	if err != nil {
		return err
	}
	return (&bus.Site{JS: p.js}).Read(ctx, kv, []string{filter}, f)
}

// events calls f with each event that is on the bus now.
func (p *Place) events(ctx context.Context, f func(jetstream.Msg, *jetstream.MsgMetadata)) error {
	stream, err := p.js.Stream(ctx, p.name)
	if err != nil {
		return err
	}
	last := stream.CachedInfo().State.LastSeq
	if stream.CachedInfo().State.Msgs == 0 {
		return nil
	}
	// No ordered consumer of the library: it is made again for each event, and for ever while its server is away.
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
		InactiveThreshold: time.Minute})
	if err != nil {
		return err
	}
	for {
		m, err := consumer.Next(jetstream.FetchMaxWait(3 * time.Second))
		if errors.Is(err, nats.ErrTimeout) { // central has taken the rest meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		at, err := m.Metadata()
		if err != nil {
			return err
		}
		f(m, at)
		if at.Sequence.Stream >= last {
			return nil
		}
	}
}
