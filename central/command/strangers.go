package command

import (
	"time"

	"github.com/ironyard/ironyard/central/strangers"
)

// strangerFlags are what callers may cost who are not known: agents in ramdisks, and callers whose password or token is
// not known to be right yet. docs/strangers.md explains them.
type strangerFlags struct {
	StrangersSlots           int           `help:"Maximum number of concurrent requests without a known caller: lookups, inspections, first heartbeats, and passwords and tokens to check. Further ones get 503 and may be repeated." default:"64" env:"CENTRAL_STRANGERS_SLOTS" group:"Strangers"`
	StrangersSlotsPerAddress int           `help:"Maximum number of such requests from one address (IPv6: one /64). It never exceeds what is free for other addresses. Raise it if many machines share an address. If that address is a proxy, set --trusted-proxy." default:"16" env:"CENTRAL_STRANGERS_SLOTS_PER_ADDRESS" group:"Strangers"`
	StrangersBytes           int64         `help:"Memory for the bodies of such requests and for the values read from them, in bytes." default:"41943040" env:"CENTRAL_STRANGERS_BYTES" group:"Strangers"`
	StrangersBytesPerAddress int64         `help:"Memory for the bodies of one address, in bytes. An inspection of 16 MiB, the largest that is accepted, needs 20 MiB." default:"25165824" env:"CENTRAL_STRANGERS_BYTES_PER_ADDRESS" group:"Strangers"`
	StrangersBodyTime        time.Duration `help:"Time limit for receiving a body." default:"10s" env:"CENTRAL_STRANGERS_BODY_TIME" group:"Strangers"`
	StrangersBodyRate        int64         `help:"Minimum rate of a body that takes longer than --strangers-body-time, in bytes a second." default:"262144" env:"CENTRAL_STRANGERS_BODY_RATE" group:"Strangers"`
	StrangersTime            time.Duration `help:"Time limit for a request once its body is there, and for a password that waits for its check." default:"15s" env:"CENTRAL_STRANGERS_TIME" group:"Strangers"`
	StrangersPause           time.Duration `help:"Time that a request beyond the budget waits before it is refused." default:"1s" env:"CENTRAL_STRANGERS_PAUSE" group:"Strangers"`
	StrangersValues          int           `help:"Maximum number of names and values in the JSON of a body." default:"200000" env:"CENTRAL_STRANGERS_VALUES" group:"Strangers"`
	StrangersLines           int           `help:"Maximum number of lines a minute about refused requests, in the log and in the audit each. One address writes one line." default:"60" env:"CENTRAL_STRANGERS_LINES" group:"Strangers"`
}

func (f *strangerFlags) budget() strangers.Budget {
	return strangers.Budget{Slots: f.StrangersSlots, SlotsPerAddress: f.StrangersSlotsPerAddress, Bytes: f.StrangersBytes, BytesPerAddress: f.StrangersBytesPerAddress,
		BodyTime: f.StrangersBodyTime, BodyRate: f.StrangersBodyRate, Time: f.StrangersTime, Pause: f.StrangersPause, Values: f.StrangersValues, Lines: f.StrangersLines}
}
