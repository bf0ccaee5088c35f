package runner

import (
	"time"

	"github.com/ironyard/ironyard/protocol/seal"
)

const nodeA = "11111111-1111-4111-8111-111111111111"

var testKey, _ = seal.NewKey(make([]byte, 32))

// leased are the members as a rackd with a lease sees them.
type leased struct{}

func (leased) Check() error                      { return nil }
func (leased) Confirm() error                    { return nil }
func (leased) ID() string                        { return "lease 1" }
func (leased) LastSeen(string) (time.Time, bool) { return time.Time{}, false }

// alarms count forged documents, by bucket.
type alarms map[string]int

// Forged implements secrets.Metrics.
func (a alarms) Forged(bucket string) { a[bucket]++ }
