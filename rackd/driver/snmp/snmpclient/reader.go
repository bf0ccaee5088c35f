package snmpclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// ReaderOptions are what a Reader is told; zero values mean the defaults.
type ReaderOptions struct {
	// AnswerTimeout bounds the wait for one answer, which is asked for Tries times; default 3 s and 4 times (proliantutils').
	AnswerTimeout time.Duration
	Tries         int
	// Within bounds all that one call reads; default 2 minutes.
	Within time.Duration
	// MaxBMCs, Recovery and Pace are bmc.PoolOptions'.
	MaxBMCs  int
	Recovery time.Duration
	Pace     int
	// Networks are those that BMCs are in.
	Networks outbound.BMCs
	// Shared is bmc.PoolOptions\'.
	Shared bmc.Shared
	Log    *slog.Logger
}

// Reader reads objects of BMCs that have an SNMP agent beside what their driver speaks.
type Reader struct {
	opts ReaderOptions
	pool *bmc.Pool[*Session]
}

// NewReader returns a Reader without any session; Close ends those that come.
func NewReader(o ReaderOptions) *Reader {
	if o.AnswerTimeout <= 0 {
		o.AnswerTimeout = 3 * time.Second
	}
	if o.Tries <= 0 {
		o.Tries = 4
	}
	if o.Within <= 0 {
		o.Within = 2 * time.Minute
	}
	pool := bmc.PoolOptions{Driver: "snmp", MaxBMCs: o.MaxBMCs, Recovery: o.Recovery, Pace: o.Pace, Shared: o.Shared, Log: o.Log}
	return &Reader{o, bmc.NewPool[*Session](pool)}
}

// Close closes the sockets. No call may follow.
func (r *Reader) Close(ctx context.Context) error { return r.pool.Close(ctx) }

// Read runs do in the turn of a node's agent, and explains what went wrong. doing is what is tried, as in "inspect the machine".
func (r *Reader) Read(ctx context.Context, n *node.Document, doing string, t Target, do func(context.Context, *Session) error) error {
	err := r.pool.Use(ctx, t.Account().Of(n), func(ctx context.Context) (*Session, error) {
		return Open(ctx, t, Options{AnswerTimeout: r.opts.AnswerTimeout, Tries: r.opts.Tries, Networks: r.opts.Networks})
	}, func(s *Session) error {
		slow := fmt.Errorf("all that it is asked for has not come within %s: %w", r.opts.Within, driver.ErrUnreachable)
		within, cancel := context.WithTimeoutCause(ctx, r.opts.Within, slow)
		defer cancel()
		err := do(within, s)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return &bmc.Lost{Err: slow} // gosnmp may see the deadline before its context ends
		}
		return err
	})
	return bmc.Attempt{Node: n, Doing: doing + " by SNMP", Device: "SNMP agent", BMC: t.Address(), User: t.User,
		Secrets: t.Secrets(), Fields: t.Names.Fields}.Explain(err)
}
