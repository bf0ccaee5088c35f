package enrol_test

import (
	"io"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/join"
)

// endless is a request's body of which nothing comes; reading tells once that it is waited for.
type endless struct {
	reading func()
	until   <-chan struct{}
}

func (e *endless) Read([]byte) (int, error) {
	e.reading()
	<-e.until
	return 0, io.ErrUnexpectedEOF
}

// Who sends a request slowly, which needs no token, keeps nobody from joining and renewing.
func TestSlowRequestsKeepNobodyOut(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	var reading, ended sync.WaitGroup
	until := make(chan struct{})
	for range 40 {
		reading.Add(1)
		ended.Go(func() {
			body := &endless{sync.OnceFunc(reading.Done), until}
			w.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", join.EnrolPath, body))
			body.reading() // also when it was refused unread
		})
	}
	reading.Wait()
	if _, err := w.join(w.token(rackA), ""); err != nil {
		t.Errorf("while 40 requests are on their way: %v", err)
	}
	close(until)
	ended.Wait()
}
