package bus

import (
	"errors"
	"log/slog"

	"github.com/nats-io/nats.go"
)

// Attend has what the client library complains about on a connection told to log, and
// calls overflowed each time that a subscription begins to lose messages because they are
// not taken fast enough. Who attends to a connection last is told. The library says an
// overflow once, until the subscription has recovered.
//
// What is lost then comes again: a watch on a bucket notices the gap and reads on from
// there, and so does central's ingest; who asked a question hears nothing and asks again;
// hints and beats are looked after by timers.
func Attend(conn *nats.Conn, log *slog.Logger, overflowed func()) {
	conn.SetErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
		if !errors.Is(err, nats.ErrSlowConsumer) || sub == nil {
			log.Warn("the bus complains", "error", err)
			return
		}
		overflowed()
		dropped, _ := sub.Dropped() // fails on a closed subscription only
		log.Warn("messages of the bus were dropped, because this process does not read them fast enough; they are read or asked for again, later; "+
			"if it comes back, give the process more processor time or fewer nodes", "subject", sub.Subject, "dropped", dropped)
	})
}
