package membership

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/join"
)

// A program has read its folder, and an operator renews that before the program watches it. The program is told all the same.
func TestARenewalBeforeTheFolderIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Member{Dir: t.TempDir(), Scope: join.Scope{Role: join.Bus, Site: "east", Name: "east-1", Address: "127.0.0.1"}, Renewed: time.Now().Add(-time.Minute)}
		write := func(trust string) {
			t.Helper()
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			for file, content := range map[string]string{trustFile: trust, memberFile: string(text)} {
				if err := os.WriteFile(m.Path(file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		write("{}")
		opened, err := Open(m.Dir)
		if err != nil {
			t.Fatal(err)
		}
		m.Renewed = time.Now()
		write(`{"accounts":{}}`)
		ctx, cancel := context.WithCancel(t.Context())
		told, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			opened.KeepFresh(ctx, slog.New(slog.DiscardHandler), nil, func() { told++ })
		}()
		time.Sleep(10 * lookEvery)
		cancel()
		<-done
		if told != 1 || !opened.Renewed.Equal(m.Renewed) {
			t.Errorf("the program was told %d times of what the renewal of %s has brought, and knows that of %s", told, m.Renewed, opened.Renewed)
		}
	})
}
