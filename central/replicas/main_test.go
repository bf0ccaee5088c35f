package replicas

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/failpoint"
	"github.com/ironyard/ironyard/protocol/seal"
)

// What a replica, a child of the test, is told by its environment.
const (
	envDatabase = "IRONYARD_TEST_DATABASE"
	envBus      = "IRONYARD_TEST_BUS"
	envKey      = "IRONYARD_TEST_KEY"
)

var postgres storetest.Cluster

func TestMain(m *testing.M) {
	if os.Getenv(envDatabase) != "" {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, "replica:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(postgres.Run(m))
}

// serve is a replica: central as it ships, with its endpoint on standard output.
func serve() error {
	if err := failpoint.ArmFromEnv(); err != nil {
		return err
	}
	key, err := seal.ParseKey(os.Getenv(envKey))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return daemon.Run(ctx, daemon.Config{Database: os.Getenv(envDatabase), BusURL: os.Getenv(envBus), Key: key, Listen: "127.0.0.1:0",
		Grace: 5 * time.Second, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}, func(i daemon.Info) { fmt.Println(i.Endpoint) })
}
