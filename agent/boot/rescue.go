package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/ironyard/ironyard/agent/rescue"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

const (
	rescueFile = "/run/ironyard/rescue"
	rescuePort = "22"
	// lingering is how long the command API still answers after a rescue has begun: a rackd that did not get the
	// answer, or the one that takes its work, asks again.
	lingering = time.Minute
)

// rescuer begins a rescue at most once. Safe for concurrent use.
type rescuer struct {
	ctx   context.Context // of the machine's run
	crew  *crew
	log   *slog.Logger
	mu    sync.Mutex
	began bool
	begun chan struct{} // closed when the rescue has begun
}

func newRescuer(ctx context.Context, crew *crew, log *slog.Logger) *rescuer {
	return &rescuer{ctx: ctx, crew: crew, log: log, begun: make(chan struct{})}
}

// Begin makes a host key and lets people in with the password of that hash.
func (r *rescuer) Begin(hash string) (result agentapi.FinalizeRescueResult, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began {
		return result, errors.New("the rescue has begun already: its password stays")
	}
	state, err := rescue.NewState(hash)
	if err != nil {
		return result, err
	}
	server, err := r.open(state)
	if err != nil {
		return result, err
	}
	if err := state.Save(rescueFile); err != nil { // the agent would not go on with it after a crash
		r.log.Warn("rescue", "error", err)
	}
	r.began = true
	close(r.begun)
	return agentapi.FinalizeRescueResult{SSH: reachable(), HostKey: server.Fingerprint()}, nil
}

// open starts to let people in.
func (r *rescuer) open(state rescue.State) (*rescue.Server, error) {
	server, err := rescue.New(r.log, state.Hash, state.Key)
	if err != nil {
		return nil, err
	}
	var listen net.ListenConfig
	l, err := listen.Listen(r.ctx, "tcp", ":"+rescuePort)
	if err != nil {
		return nil, fmt.Errorf("listen for SSH: %w", err)
	}
	r.crew.Go(func() { server.ServeSSH(r.ctx, l) })
	for _, path := range rescue.Consoles() {
		go server.ServeConsole(r.ctx, path) // the crew does not wait for it: what reads a terminal ends with the process
	}
	r.log.Info("rescue: the user "+rescue.User+" may log in by SSH and on the console", "ssh", reachable(), "host_key", server.Fingerprint())
	return server, nil
}

// resume goes on with a rescue that an agent before has begun in this boot; there is false without one.
func (r *rescuer) resume() (there bool, err error) {
	state, there, err := rescue.Load(rescueFile)
	if err != nil || !there {
		return there, err
	}
	_, err = r.open(state)
	return true, err
}

// reachable are the addresses of this machine with the port of SSH.
func reachable() (list []string) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			list = append(list, net.JoinHostPort(n.IP.String(), rescuePort))
		}
	}
	return list
}

// linger ends with lingering, with ctx, or when the machine's run is to end, and removes what rackd believed.
func (r *rescuer) linger(ctx context.Context, tokenFile string, asked <-chan End) End {
	timer := time.NewTimer(lingering)
	defer timer.Stop()
	defer func() {
		if err := os.Remove(tokenFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			r.log.Warn("rescue: the agent's token stays in its file", "error", err)
		}
	}()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case end := <-asked:
		return end
	}
	return Nothing
}
