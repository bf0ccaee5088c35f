package fields

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/ops/dev"
	"github.com/ironyard/ironyard/ops/stack"
	"github.com/ironyard/ironyard/protocol/provision"
)

// server is a control plane and a rackd in this process, with the hardware types that there are.
type server struct {
	t *testing.T
	*stack.Stack
}

func start(t *testing.T) *server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	up, done := make(chan *stack.Stack, 1), make(chan error, 1)
	go func() {
		done <- dev.Run(ctx, dev.Options{Listen: "127.0.0.1:0", Data: t.TempDir(), Drivers: []string{"redfish"}, Log: slog.New(slog.DiscardHandler)},
			func(s *stack.Stack) { up <- s })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended with: %v", err)
		}
	})
	select {
	case s := <-up:
		return &server{t, s}
	case err := <-done:
		done <- err
		t.Fatalf("the server did not start: %v", err)
	}
	return nil
}

// do sends a request of the newest version.
func (s *server) do(method, path, body string) (status int, answer string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.Endpoint+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("X-OpenStack-Ironic-API-Version", "latest")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// want is do, and the request must not be refused.
func (s *server) want(method, path, body string) string {
	s.t.Helper()
	status, answer := s.do(method, path, body)
	if status >= 300 {
		s.t.Fatalf("%s %s %s: status %d\n%s", method, path, body, status, answer)
	}
	return answer
}

// document is the server's description of itself.
func (s *server) document() (doc map[string]any) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.want(http.MethodGet, "/v1/openapi.json", "")), &doc); err != nil {
		s.t.Fatal(err)
	}
	return doc
}

// move puts a node into a state as if its rack had reported it.
func (s *server) move(node string, state provision.State) {
	s.t.Helper()
	err := s.Store.Update(s.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, node)
		if err != nil {
			return err
		}
		if n.ProvisionState == state {
			return nil
		}
		n.Accept(state, provision.NoState, n.CreatedAt)
		return errors.Join(tx.UpdateNode(ctx, n), tx.Enqueue(ctx, dispatch.Dirty(n)))
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
