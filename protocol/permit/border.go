package permit

// Border is a subject that crosses between a site's two NATS accounts: the site's own,
// with its streams, and that of its rackds.
type Border struct {
	Subject string
	// Service: requests cross, and their answers go back; else messages cross.
	Service bool
	// FromRackds: the rackds' account provides it, else the site's.
	FromRackds bool
	Why        string
}

// Borders returns every subject that crosses. What a rackd's rules allow and no border
// lets through stays among rackds.
func Borders() []Border {
	return []Border{
		// As a whole: an account that imports less of it is answered twice, the second time
		// by the server, which says that the account has no streams.
		{Subject: "$JS.API.>", Service: true, Why: "open, fetch and watch buckets"},
		{Subject: "$JS.FC.>", Service: true, Why: "flow control of watches"},
		{Subject: "$KV.>", Service: true, Why: "write keys"},
		{Subject: "EVENTS.>", Service: true, Why: "report"},
		{Subject: "_INBOX.rackd.>", Why: "hear what watches deliver"},
		{Subject: "ASK.>", Service: true, FromRackds: true, Why: "central asks rackds"},
		{Subject: "BEAT.>", FromRackds: true, Why: "central hears that rackds live"},
		{Subject: "NOTIFY.hardware.>", FromRackds: true, Why: "who subscribes hears what sensors say"},
	}
}
