package boot

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

type newest struct{ agentapi.Command }

func (n newest) Newest() (*agentapi.Command, <-chan struct{}) { return &n.Command, nil }

// A machine ends its run as soon as rackd knows how the command ended, and after the grace where rackd does not answer.
func TestRunEndsOnceItIsTold(t *testing.T) {
	ended := agentapi.Command{ID: "work/power_off", Status: agentapi.CommandSucceeded}
	running, older := ended, ended
	running.Status, older.ID = agentapi.CommandRunning, "work/sync"
	for _, c := range []struct {
		name string
		beat *agentapi.Command
		want time.Duration
	}{
		{"the command's end", &ended, 300 * time.Millisecond},
		{"that it runs", &running, grace},
		{"an older command", &older, grace},
		{"no command", nil, grace},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := newTold()
				told.note(&older) // what came before is replaced
				go func() {
					time.Sleep(300 * time.Millisecond)
					told.note(c.beat)
				}()
				began := time.Now()
				told.await(t.Context(), newest{ended})
				if took := time.Since(began); took != c.want {
					t.Errorf("the run ended after %s, want %s", took, c.want)
				}
			})
		})
	}
}

// The command that ends the machine's run is answered, too: its handler may still be at it when the run ends.
func TestTheLastCommandIsAnswered(t *testing.T) {
	begun, answer := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-answer
		io.WriteString(w, "done")
	}))
	defer server.Close()
	go func() {
		<-begun
		time.AfterFunc(50*time.Millisecond, func() { close(answer) })
		answerAll(t.Context(), server.Config)
		server.Config.Close()
	}()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "done" {
		t.Errorf("answered %q, %v", text, err)
	}
}
