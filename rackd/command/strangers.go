package command

import "github.com/ironyard/ironyard/rackd/strangers"

// strangerFlags are what those may cost who have shown nothing yet: hosts on the machines' network, and agents before
// their token was seen to be right. docs/strangers.md explains them.
type strangerFlags struct {
	StrangersConnections           int `help:"Maximum number of connections to the agent port on which no lookup was answered yet and no token was right. Further ones are closed; agents try again." default:"1024" env:"RACKD_STRANGERS_CONNECTIONS" group:"Strangers"`
	StrangersConnectionsPerAddress int `help:"Maximum number of such connections from one address (IPv6: one /64). It never exceeds what is free for other addresses. Raise it if many machines share an address." default:"128" env:"RACKD_STRANGERS_CONNECTIONS_PER_ADDRESS" group:"Strangers"`
	StrangersHandshakes            int `help:"Maximum number of connections to firmware's port by TLS (--https-certificate) on which no request has come yet. Further ones are closed." default:"256" env:"RACKD_STRANGERS_HANDSHAKES" group:"Strangers"`
	StrangersHandshakesPerAddress  int `help:"Maximum number of such connections from one address (IPv6: one /64). It never exceeds what is free for other addresses." default:"64" env:"RACKD_STRANGERS_HANDSHAKES_PER_ADDRESS" group:"Strangers"`
	StrangersBodies                int `help:"Maximum number of heartbeats above 4 KiB that are read at once. Further ones get 503. Usual heartbeats are smaller." default:"32" env:"RACKD_STRANGERS_BODIES" group:"Strangers"`
	StrangersBodiesPerAddress      int `help:"Maximum number of such heartbeats from one address." default:"4" env:"RACKD_STRANGERS_BODIES_PER_ADDRESS" group:"Strangers"`
	StrangersLines                 int `help:"Maximum number of log lines a minute about unknown callers and machines, for each of DHCP, TFTP, boot web and agent port." default:"20" env:"RACKD_STRANGERS_LINES" group:"Strangers"`
	StrangersMachineLines          int `help:"Maximum number of log lines a minute about one enrolled machine, or one address that fetches files, for each of these." default:"10" env:"RACKD_STRANGERS_MACHINE_LINES" group:"Strangers"`
	StrangersLogRate               int `help:"Maximum rate of the log that the agent of one node sends, in bytes a second." default:"16384" env:"RACKD_STRANGERS_LOG_RATE" group:"Strangers"`
	StrangersLogBurst              int `help:"Maximum size of the log that the agent of one node sends at once, in bytes. A request may have 524288." default:"1048576" env:"RACKD_STRANGERS_LOG_BURST" group:"Strangers"`
	StrangersRange                 int `help:"With --discovery: maximum part of the DHCP range for machines that are not enrolled, in percent." default:"50" env:"RACKD_STRANGERS_RANGE" group:"Strangers"`
}

func (f *strangerFlags) budget() strangers.Budget {
	return strangers.Budget{Connections: f.StrangersConnections, ConnectionsPerAddress: f.StrangersConnectionsPerAddress, Handshakes: f.StrangersHandshakes, HandshakesPerAddress: f.StrangersHandshakesPerAddress,
		Bodies: f.StrangersBodies, BodiesPerAddress: f.StrangersBodiesPerAddress,
		Lines: f.StrangersLines, MachineLines: f.StrangersMachineLines, LogRate: f.StrangersLogRate, LogBurst: f.StrangersLogBurst, Range: f.StrangersRange}
}
