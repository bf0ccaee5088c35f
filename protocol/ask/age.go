package ask

import (
	"fmt"
	"net/http"
	"time"
)

// Clock is a reading of a rackd's own clock, which counts from the rackd's start and never
// steps. A question says by it until when it may be carried out. So neither wall clocks nor the
// time that a question was on its way decide whether it is too old.
type Clock struct {
	// ID is the clock's: a rackd that starts again has another one.
	ID string `json:"id,omitempty"`
	// At is in milliseconds.
	At int64 `json:"at,omitempty"`
}

// After is the reading d later.
func (c Clock) After(d time.Duration) Clock { return Clock{c.ID, c.At + d.Milliseconds()} }

// FromMemory reports whether a rackd answers m without a BMC.
func (m Method) FromMemory() bool {
	switch m {
	case Validate, DriverProperties, CheckRAID, RAIDProperties, CheckChange, VendorMethods, DriverVendorMethods, GetBootScript,
		RamdiskLookup, RamdiskHeartbeat, RamdiskInspected:
		return true
	}
	return m.HandedOn()
}

// Late is the answer to a question that is not carried out because its time is over, or cannot
// be told: the rackd has started again since its clock was read.
func Late(m Method, why string) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Late: true,
		Message: fmt.Sprintf("The question %s was not carried out: %s. Nothing was done; try again.", m, why)}
}
