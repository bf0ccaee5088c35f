package iscsi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/commandapi"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/agentclient"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/iscsideploy"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

type cache struct {
	driver.Images
	path string
}

func (c cache) File(string) (*os.File, func(), error) {
	f, err := os.Open(c.path)
	return f, func() { f.Close() }, err
}

// A rackd dies, or loses the agent for a few seconds, while the agent exports the disk: it waits for disks, or for the target of before to
// end. The step goes on under the next owner, or at its next try: it does not fail because the agent is still at it.
func TestTheDiskIsBeingExportedWhenTheNextOwnerAsks(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	ctx, dies := context.WithCancel(t.Context())
	release, over := make(chan struct{}), errors.New("no disk fits")
	var starts atomic.Int32
	agents := command.NewRunner(log, command.Spec{Name: agentapi.CmdStartISCSI, Async: true, Run: func(ctx context.Context, _ command.Call) (any, error) {
		if starts.Add(1) == 1 {
			dies()
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil, over
	}})
	defer agents.Close()
	api := httptest.NewTLSServer((&commandapi.Server{Runner: agents, Token: "token", Log: log, StartedAt: time.Now()}).Handler())
	defer api.Close()
	client := clientOf(api)

	img := make([]byte, 4<<20)
	copy(img[510:], "\x55\xaa")
	sum := sha256.Sum256(img)
	r := drivertest.NewRig()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, img, 0o600); err != nil {
		t.Fatal(err)
	}
	r.Node.InstanceInfo = map[string]any{"image_source": "http://i/os.img", "image_checksum": hex.EncodeToString(sum[:])}
	write := func(ctx context.Context) (driver.Outcome, error) {
		i := iscsideploy.New(direct.New(direct.Settings{}), iscsideploy.NewWriter(iscsideploy.Settings{})) // of a rackd of its own
		for _, s := range i.DeploySteps(r.Node) {
			if s.Name == "write_image" {
				task := r.Task(networkboot.IPXE())
				task.Agent, task.Images = client, cache{r, path}
				return s.Run(ctx, task)
			}
		}
		t.Fatal("no step write_image")
		return driver.Outcome{}, nil
	}
	if _, err := write(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("the first owner: %v", err)
	}
	out, err := write(t.Context())
	if _, waits := out.Waiting(); err != nil || !waits || starts.Load() != 1 {
		t.Errorf("the next owner: %+v, %v after %d starts", out, err, starts.Load())
	}
	if said := strings.Join(r.Phases, "\n"); !strings.Contains(said, "it is busy with a command of before") {
		t.Errorf("the history says %q", said)
	}
	close(release)
	for err == nil && t.Context().Err() == nil { // the agent has to notice it
		out, err = write(t.Context())
	}
	if starts.Load() != 2 || !strings.Contains(fmt.Sprint(err), over.Error()) {
		t.Errorf("once the agent is free: %+v, %v after %d starts", out, err, starts.Load())
	}
}

// An agent that has another work's fence, or another command of that id, is not busy: that ends the step.
func TestABusyAgentIsToldFromOneThatRefuses(t *testing.T) {
	for said, busy := range map[string]bool{"agent is busy: command a (b) is running": true, "Agent is busy": true,
		"the command is of a rackd that has lost the work": false, "id is in use by another command: agent is busy": false} {
		api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(agentapi.Fault{Code: "Client", String: said})
		}))
		_, err := clientOf(api).Call(t.Context(), &drivertest.Fence{}, "id", agentapi.CmdStopISCSI, nil)
		api.Close()
		if errors.Is(err, driver.ErrBusy) != busy || errors.Is(err, driver.ErrUnreachable) || !strings.Contains(fmt.Sprint(err), said) {
			t.Errorf("%q: %v", said, err)
		}
	}
}

// clientOf is a rackd's client of an agent.
func clientOf(api *httptest.Server) *agentclient.Client {
	state := &work.Agent{URL: api.URL, LastSeen: time.Now(), VerifyCA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}))}
	return agentclient.New(agentclient.Config{State: func() *work.Agent { return state }, Tokens: func() []string { return []string{"token"} }, Timeout: 5 * time.Second, Pause: time.Millisecond, Poll: time.Millisecond})
}
