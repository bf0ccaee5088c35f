package boot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/rackclient"
	"github.com/ironyard/ironyard/agent/session"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// smallBeat is what a heartbeat may take whatever its command was given: rackd takes 256 KiB, of an
// agent that it does not know yet too.
const smallBeat = 8 << 10

// drive is a config drive as rackd sends it, larger than rackd takes in a heartbeat.
var drive = strings.Repeat("SECRETDRIVE", 40_000)

// beatOf is the body of the heartbeat that an agent sends after the command c.
func beatOf(t *testing.T, newest session.Commands) []byte {
	t.Helper()
	bodies := make(chan []byte, 8)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- body
		w.WriteHeader(http.StatusAccepted)
	}))
	defer s.Close()
	sum := sha256.Sum256(s.Certificate().Raw)
	client, err := rackclient.New([]string{s.URL}, hex.EncodeToString(sum[:]))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	h := &session.Heart{Log: slog.New(slog.DiscardHandler), Rackd: client, Commands: newest,
		Identity: session.Identity{Node: "n", Token: "t", Timeout: time.Minute}, Beat: agentapi.Heartbeat{AgentToken: "t", CallbackURL: "https://192.0.2.1:9999"}}
	done := make(chan struct{})
	go func() { defer close(done); h.Run(ctx) }()
	defer func() { cancel(); <-done }()
	select {
	case body := <-bodies:
		return body
	case <-time.After(10 * time.Second):
		t.Fatal("no heartbeat within 10 s")
		return nil
	}
}

// A heartbeat says of a command how it fares, and never what it was given or has returned: that
// holds config drives and secrets, and is larger than a heartbeat may be.
func TestHeartbeatLeavesOutWhatACommandWasGiven(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	step := map[string]any{"interface": "deploy", "step": "erase_nothing", "args": map[string]any{"configdrive": drive, "image_password": "hunter2"}}
	params, err := json.Marshal(agentapi.StepParams{Step: step})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]command.Spec{
		// What execute_deploy_step of a step that the agent has returns: its result beside the step as it was asked for.
		"succeeded": {Name: agentapi.CmdExecDeployStep, Run: func(context.Context, command.Call) (any, error) {
			return map[string]any{"deploy_result": "ok", "deploy_step": step}, nil
		}},
		"failed": {Name: agentapi.CmdExecDeployStep, Run: func(context.Context, command.Call) (any, error) {
			return nil, errors.New("no space left: " + strings.Repeat("ä line of a tool\n", 10_000))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := command.NewRunner(quiet, c)
			defer r.Close()
			done, err := r.Start(agentapi.CommandRequest{Name: c.Name, ID: "w/deploy.write_image", Params: params})
			if err != nil {
				t.Fatal(err)
			}
			body := beatOf(t, r)
			if len(body) > smallBeat {
				t.Errorf("the heartbeat takes %d bytes, more than %d", len(body), smallBeat)
			}
			if strings.Contains(string(body), "SECRETDRIVE") || strings.Contains(string(body), "hunter2") {
				t.Error("the heartbeat repeats what the command was given")
			}
			var hb agentapi.Heartbeat
			if err := json.Unmarshal(body, &hb); err != nil || hb.Command == nil {
				t.Fatalf("heartbeat %.200s: %v", body, err)
			}
			if hb.Command.ID != done.ID || hb.Command.Name != done.Name || hb.Command.Status != done.Status {
				t.Errorf("the heartbeat says %+v, the command is %s %s %s", *hb.Command, done.ID, done.Name, done.Status)
			}
			if done.Error != nil && (hb.Command.Error == nil || !strings.HasPrefix(hb.Command.Error.Details, "no space left")) {
				t.Errorf("the heartbeat does not say why the command failed: %+v", hb.Command.Error)
			}
			if newest, _ := r.Newest(); name == "succeeded" && !strings.Contains(string(newest.Result), "SECRETDRIVE") {
				t.Error("rackd, who asks for the command itself, is not told its result as ironic-python-agent tells it")
			}
		})
	}
}
