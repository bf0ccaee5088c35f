package view

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
)

// slowStore hands out the first pieces of an object and falls silent. Who reads waits until the
// context's deadline, as with the client library, which a context that ends does not wake.
type slowStore struct{ jetstream.ObjectStore }

func (slowStore) GetString(ctx context.Context, _ string, _ ...jetstream.GetObjectOpt) (string, error) {
	end, bounded := ctx.Deadline()
	if !bounded {
		end = time.Now().Add(5 * time.Second)
	}
	<-time.After(time.Until(end))
	return "", errors.New("timeout")
}

// A site that falls silent in the middle of a config drive holds nobody up: neither for as long as the
// state's deadline, nor a rackd that is told to end.
func TestConfigDriveOfASilentSite(t *testing.T) {
	v := &View{site: &bus.Site{Drives: slowStore{}}}
	for name, tell := range map[string]struct {
		after, want time.Duration
	}{
		"the state's deadline is far": {24 * time.Hour, driveWithin},
		"rackd is told to end":        {time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
				defer cancel()
				defer time.AfterFunc(tell.after, cancel).Stop()
				began := time.Now()
				if _, err := v.ConfigDrive(ctx, "drive"); err == nil || time.Since(began) != tell.want {
					t.Errorf("ended after %s with %v, want %s", time.Since(began), err, tell.want)
				}
				time.Sleep(48 * time.Hour) // the library's wait ends too
			})
		})
	}
}
