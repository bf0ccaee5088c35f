package bus

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go/jetstream"
)

// mute is a bucket of which nothing comes.
type mute struct{ jetstream.KeyValue }

func (mute) Bucket() string { return "ALIVE" }

func (m mute) WatchAll(context.Context, ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	return muteWatcher{}, nil
}

func (m mute) WatchFiltered(context.Context, []string, ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	return muteWatcher{}, nil
}

type muteWatcher struct{ jetstream.KeyWatcher }

func (muteWatcher) Updates() <-chan jetstream.KeyValueEntry {
	return make(chan jetstream.KeyValueEntry)
}

// A list of which nothing comes ends: who reads it has more to do.
func TestListOfWhichNothingComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := (&Site{Name: "par1"}).List(t.Context(), mute{})
		if err == nil || !strings.Contains(err.Error(), `list bucket ALIVE of site "par1"`) {
			t.Errorf("the list ended with %v", err)
		}
	})
}
