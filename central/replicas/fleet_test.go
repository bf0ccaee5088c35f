package replicas

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/seal"
)

// size of a fleet.
const size = 3

// fleet is some replicas on one database and one bus, with a rack behind it.
type fleet struct {
	*testing.T
	database string
	store    *store.Store // the test's own view of the database
	bus      *server.Server
	key      *seal.Key
	rack     *rack

	mu       sync.Mutex
	replicas [size]*replica
}

func newFleet(t *testing.T, database string) *fleet {
	t.Helper()
	f := &fleet{T: t, database: database}
	f.store = storetest.Open(t, f.database)
	var err error
	if f.key, err = seal.GenerateKey(); err != nil {
		t.Fatal(err)
	}
	f.bus, err = server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	f.bus.Start()
	t.Cleanup(func() { f.bus.Shutdown(); f.bus.WaitForShutdown() })
	if !f.bus.ReadyForConnections(10 * time.Second) {
		t.Fatal("the bus does not start")
	}
	f.rack = newRack(t, f.bus)
	for i := range f.replicas {
		f.replicas[i] = f.startReplica("")
	}
	return f
}

// replace stops replica i and starts another in its place.
func (f *fleet) replace(i int, points string) *replica {
	f.Helper()
	f.at(i).stop()
	return f.set(i, f.startReplica(points))
}

func (f *fleet) set(i int, r *replica) *replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas[i] = r
	return r
}

func (f *fleet) at(i int) *replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.replicas[i]
}

// endpoint returns that of any replica, dead or alive: clients do not know either.
func (f *fleet) endpoint() string { return f.at(rand.IntN(size)).endpoint }

// until waits for a condition.
func until(t *testing.T, within time.Duration, what string, met func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !met() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
