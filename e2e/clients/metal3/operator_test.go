package metal3

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/drivers"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"

	"github.com/ironyard/ironyard/ops/dev"
	"github.com/ironyard/ironyard/ops/stack"
)

// baseline is the oldest minor version that the operator works with.
const baseline = 89

// wanted are the newer minor versions that bring it something, newest first.
var wanted = []int{110, 109, 95, 93}

// operator is the operator's connection to Ironic's API.
type operator struct {
	client *gophercloud.ServiceClient
	kernel string // of the ramdisk, for all hosts
}

// endpoint of the fleet that all tests share; each has hosts of its own.
var endpoint string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "metal3")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	up, done := make(chan *stack.Stack, 1), make(chan error, 1)
	go func() {
		done <- dev.Run(ctx, dev.Options{Listen: "127.0.0.1:0", Data: dir, Drivers: []string{"redfish"}, Log: slog.New(slog.DiscardHandler)},
			func(s *stack.Stack) { up <- s })
	}()
	select {
	case s := <-up:
		endpoint = s.Endpoint
	case <-time.After(time.Minute):
		fmt.Println("the fleet was not ready within a minute")
		cancel()
		<-done
		return 1
	}
	code := m.Run()
	cancel()
	if err := <-done; err != nil {
		fmt.Println("the fleet ended with", err)
		return 1
	}
	return code
}

// newOperator connects to the fleet as the operator does when it starts.
func newOperator(t *testing.T) *operator {
	t.Helper()
	t.Parallel()
	client, err := noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: endpoint + "/v1/"})
	if err != nil {
		t.Fatal(err)
	}
	offered, err := utils.GetSupportedMicroversions(t.Context(), client)
	if err != nil {
		t.Fatalf("which versions does the API speak: %v", err)
	}
	if offered.MaxMajor != 1 || offered.MaxMinor < baseline {
		t.Fatalf("the API speaks up to %d.%d, too old", offered.MaxMajor, offered.MaxMinor)
	}
	client.Microversion = fmt.Sprintf("1.%d", baseline)
	for _, minor := range wanted {
		if offered.MaxMinor >= minor {
			client.Microversion = fmt.Sprintf("1.%d", minor)
			break
		}
	}
	page, err := drivers.ListDrivers(client, drivers.ListDriversOpts{}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if all, err := drivers.ExtractDrivers(page); err != nil || len(all) == 0 {
		t.Fatalf("no driver, so no conductor: %v, %v", all, err)
	}
	return &operator{client: client, kernel: "http://192.0.2.1/ipa"}
}

// turn is what one pass of the operator comes to; the zero value means that there is
// nothing left to do.
type turn struct {
	again  bool   // reconcile again
	failed string // told to the user
}

var again = turn{again: true}

// until runs passes until one has nothing left to do, and fails the test if that
// takes too long or a pass fails.
func (h *host) until(what string, pass func() (turn, error)) {
	h.t.Helper()
	if got := h.settle(what, pass); got.failed != "" {
		h.t.Fatalf("%s: %s", what, got.failed)
	}
}

// fails runs passes until one tells the user of a failure.
func (h *host) fails(what string, pass func() (turn, error)) string {
	h.t.Helper()
	got := h.settle(what, pass)
	if got.failed == "" {
		h.t.Fatalf("%s: it did not fail", what)
	}
	return got.failed
}

func (h *host) settle(what string, pass func() (turn, error)) turn {
	h.t.Helper()
	var last error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(25 * time.Millisecond) {
		result, err := pass()
		if last = err; err == nil && !result.again {
			return result
		}
	}
	h.t.Fatalf("%s did not come to an end: %v, %s", what, last, h.describe())
	return turn{}
}
