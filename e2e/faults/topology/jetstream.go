package topology

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
)

// streams are what a site keeps.
var streams = []string{"KV_" + bus.NodesBucket, "KV_" + bus.WorkBucket, "KV_" + bus.AliveBucket, "KV_" + bus.GroupsBucket,
	"OBJ_" + bus.ConfigDrives, bus.EventsStream}

// JetStream calls f once with the site's JetStream.
func (s *Site) JetStream(ctx context.Context, f func(context.Context, jetstream.JetStream) error) error {
	nc, err := s.Bus.Connect("topology")
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	return f(ctx, js)
}

// asking calls f with the site's JetStream until f is content.
func (s *Site) asking(ctx context.Context, f func(context.Context, jetstream.JetStream) error) error {
	return s.Bus.Servers[0].Await(ctx, func(ctx context.Context) error { return s.JetStream(ctx, f) })
}

// awaitBus waits until the site's JetStream takes requests.
func (s *Site) awaitBus(ctx context.Context) error {
	return s.asking(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		info, err := js.AccountInfo(ctx)
		if err == nil && info.Domain != s.Name {
			return fmt.Errorf("domain %q answers instead of %s", info.Domain, s.Name)
		}
		return err
	})
}

// awaitReplicas waits until all that the site keeps is whole on every server.
func (s *Site) awaitReplicas(ctx context.Context) error {
	return s.asking(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		for _, name := range streams {
			stream, err := js.Stream(ctx, name)
			if err != nil {
				return fmt.Errorf("stream %s: %w", name, err)
			}
			cluster := stream.CachedInfo().Cluster
			if cluster == nil || cluster.Leader == "" || len(cluster.Replicas) != replicas-1 {
				return fmt.Errorf("stream %s has not its %d replicas and a leader: %+v", name, replicas, cluster)
			}
			for _, r := range cluster.Replicas {
				if !r.Current || r.Offline {
					return fmt.Errorf("stream %s: replica %s is not current", name, r.Name)
				}
			}
		}
		return nil
	})
}
