package command

import (
	"time"

	"github.com/ironyard/ironyard/central/strangers"
)

// strangerFlags are what callers may cost who are not known: agents in ramdisks, and callers whose password or token is
// not known to be right yet. docs/strangers.md explains them.
type strangerFlags struct {
	StrangersSlots           int           `help:"How many requests of callers who are not known (lookups, inspections, first heartbeats, passwords and tokens to be checked) are worked on at once; others get 503 and may come back." default:"64" env:"CENTRAL_STRANGERS_SLOTS" group:"Strangers"`
	StrangersSlotsPerAddress int           `help:"How many of them may be of one address (IPv6: of one /64), and never more than are free for others. Raise it where many machines come from one address; give --trusted-proxy where that is a proxy." default:"16" env:"CENTRAL_STRANGERS_SLOTS_PER_ADDRESS" group:"Strangers"`
	StrangersBytes           int64         `help:"How many bytes their bodies, and what is made of these, may take of memory." default:"41943040" env:"CENTRAL_STRANGERS_BYTES" group:"Strangers"`
	StrangersBytesPerAddress int64         `help:"How many of them may be of one address. An inspection of 16 MiB, the largest that is taken, needs 20 MiB." default:"25165824" env:"CENTRAL_STRANGERS_BYTES_PER_ADDRESS" group:"Strangers"`
	StrangersBodyTime        time.Duration `help:"How long their bodies may take to come." default:"10s" env:"CENTRAL_STRANGERS_BODY_TIME" group:"Strangers"`
	StrangersBodyRate        int64         `help:"Bytes a second at which a long body may come beyond that." default:"262144" env:"CENTRAL_STRANGERS_BODY_RATE" group:"Strangers"`
	StrangersTime            time.Duration `help:"How long their requests may take once the body is there, and a password wait to be checked." default:"15s" env:"CENTRAL_STRANGERS_TIME" group:"Strangers"`
	StrangersPause           time.Duration `help:"How long one beyond the budget waits before it hears so." default:"1s" env:"CENTRAL_STRANGERS_PAUSE" group:"Strangers"`
	StrangersValues          int           `help:"How many names and values the JSON of a body may have." default:"200000" env:"CENTRAL_STRANGERS_VALUES" group:"Strangers"`
	StrangersLines           int           `help:"How many lines their refusals may write in a minute, to the log and to the audit each; an address writes one." default:"60" env:"CENTRAL_STRANGERS_LINES" group:"Strangers"`
}

func (f *strangerFlags) budget() strangers.Budget {
	return strangers.Budget{Slots: f.StrangersSlots, SlotsPerAddress: f.StrangersSlotsPerAddress, Bytes: f.StrangersBytes, BytesPerAddress: f.StrangersBytesPerAddress,
		BodyTime: f.StrangersBodyTime, BodyRate: f.StrangersBodyRate, Time: f.StrangersTime, Pause: f.StrangersPause, Values: f.StrangersValues, Lines: f.StrangersLines}
}
