package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/wan"
	"github.com/ironyard/ironyard/protocol/provision"
)

// The site whose link BenchmarkIdleWAN listens to, and for how long.
const (
	siteRackds = 3
	siteNodes  = 1000
	listenFor  = 2 * time.Minute
	// settleFor is for what enrolling leaves behind: the ends of works are still told and purged.
	settleFor = 20 * time.Second
)

// BenchmarkIdleWAN prints what a site costs its link to central while nothing
// happens: a site of three rackds and 1,000 manageable nodes, with one replica of
// central. Bytes are those of NATS, without TCP's, in both directions.
func BenchmarkIdleWAN(b *testing.B) {
	f := wan.Start(b, wan.Options{Sites: map[string]int{"east": siteRackds}})
	o, err := operator.New(f.Endpoint)
	if err != nil {
		b.Fatal(err)
	}
	names := make([]string, siteNodes)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	each(b.Context(), b, names, func(ctx context.Context, name string) error {
		id, err := o.Enrol(ctx, operator.Machine{Name: name, Driver: "fake-hardware", Group: "east"})
		if err != nil {
			return err
		}
		if err := o.Ask(ctx, id, "manage", nil); err != nil {
			return err
		}
		_, err = o.Wait(ctx, id, provision.Manageable)
		return err
	})
	select {
	case <-time.After(settleFor):
	case <-b.Context().Done():
	}
	var bytes, messages int64
	for b.Loop() {
		before, said := wanBytes(f), wanMessages(b, f.Hub)
		select {
		case <-time.After(listenFor):
		case <-b.Context().Done():
		}
		bytes += wanBytes(f) - before
		messages += wanMessages(b, f.Hub) - said
	}
	listened := b.Elapsed()
	b.ReportMetric(float64(bytes)/siteNodes/listened.Hours(), "WAN-bytes/node/hour")
	b.ReportMetric(float64(messages)/siteNodes/listened.Minutes(), "WAN-messages/node/minute")
	b.ReportMetric(float64(bytes)/1024/listened.Hours(), "WAN-KiB/site/hour")
}

func wanBytes(f *wan.Fleet) int64 {
	up, down := f.Sites["east"].Link.Bytes()
	return up + down
}

func wanMessages(b *testing.B, hub *server.Server) (n int64) {
	b.Helper()
	leafs, err := hub.Leafz(nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, l := range leafs.Leafs {
		n += l.InMsgs + l.OutMsgs
	}
	return n
}
