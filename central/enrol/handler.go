package enrol

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/ironyard/ironyard/protocol/join"
)

// atOnce bounds how many requests are looked at at the same time: everybody may send
// one, and each costs a transaction.
const atOnce = 16

// Handler answers at join.EnrolPath and join.RenewPath. It needs no authentication
// besides what the requests carry.
func (a *Authority) Handler(log *slog.Logger) http.Handler {
	slots := make(chan struct{}, atOnce)
	mux := http.NewServeMux()
	mux.Handle("POST "+join.EnrolPath, handle(a, slots, log, "joined", a.Enrol))
	mux.Handle("POST "+join.RenewPath, handle(a, slots, log, "renewed", a.Renew))
	return mux
}

func handle[R any](a *Authority, slots chan struct{}, log *slog.Logger, done string, f func(context.Context, R) (join.Grant, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request R
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, join.MaxBody)).Decode(&request); err != nil {
			answer(w, http.StatusBadRequest, join.Failure{Error: "the request is no JSON of its kind: " + err.Error()})
			return
		}
		select { // not before all of the request is here: who sends it slowly keeps nobody out
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			w.Header().Set("Retry-After", "1")
			answer(w, http.StatusServiceUnavailable, join.Failure{Error: "too many are joining at once: try again"})
			return
		}
		grant, err := f(r.Context(), request)
		var no *refusal
		switch {
		case err == nil:
			log.Info("member "+done, "member", grant.Member, "role", string(grant.Scope.Role), "name", grant.Scope.Name, "site", grant.Scope.Site,
				"group", grant.Scope.Group, "from", r.RemoteAddr, "expires", grant.Expires)
			answer(w, http.StatusOK, grant)
		case errors.As(err, &no) && no.challenge != "": // half of each renewal
			answer(w, no.status, join.Failure{Error: no.text, Challenge: no.challenge})
		case errors.As(err, &no) && no.misused != nil:
			a.alarms.raise(r.Context(), log, no.misused, r.RemoteAddr, no.text)
			answer(w, no.status, join.Failure{Error: no.text})
		case errors.As(err, &no):
			log.Warn("enrolment refused", "from", r.RemoteAddr, "reason", no.text)
			answer(w, no.status, join.Failure{Error: no.text})
		default:
			log.Error("enrolment failed", "from", r.RemoteAddr, "error", err)
			answer(w, http.StatusServiceUnavailable, join.Failure{Error: "central cannot do it now: its log says why; try again"})
		}
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) // an error means that the client has gone
}
