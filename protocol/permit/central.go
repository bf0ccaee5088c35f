package permit

import "github.com/ironyard/ironyard/protocol/bus"

// Central returns what central may do on a site's bus, which it reaches through the
// hub and the site's JetStream domain.
func Central(site string) (Rules, error) {
	if err := CheckSite(site); err != nil {
		return Rules{}, err
	}
	js := &api{prefix: "$JS." + site + ".API."}
	js.allow("know what the site's servers can do", "INFO")
	for _, s := range all {
		js.allow("open, make and change the bucket or stream", "STREAM.INFO."+s.name, "STREAM.CREATE."+s.name, "STREAM.UPDATE."+s.name)
	}
	for _, s := range []stream{nodes, work, alive, groups} {
		js.read(s, ">", "compare the bucket with the database")
		js.watched(s)
	}
	for _, s := range []stream{nodes, work, groups} {
		js.allow("write what was asked for", s.subjects+">")
	}
	js.read(drives, "M.>", "know which config drives are there")
	js.allow("remove the pieces of a config drive that is replaced", "STREAM.PURGE."+drives.name)
	js.watched(drives)
	js.say("put config drives", drives.subjects+">")
	consumer := events.name + "." + bus.IngestConsumer
	js.allow("read events, each once among all replicas",
		"CONSUMER.CREATE."+consumer, "CONSUMER.INFO."+consumer, "CONSUMER.MSG.NEXT."+consumer, "CONSUMER.UNPIN."+consumer)
	js.allow("read events again that were lost on their way", "CONSUMER.CREATE."+events.name+".*", "CONSUMER.MSG.NEXT."+events.name+".*",
		"CONSUMER.DELETE."+events.name+".*")
	js.say("acknowledge events", "$JS.ACK."+consumer+".>")
	js.say("ask rackds", "ASK.>")
	inbox := "_INBOX.central"
	return Rules{Publish: js.rules, Inbox: inbox, Subscribe: []Rule{{inbox + ".>", "hear answers, and what its consumers deliver"},
		{"BEAT.>", "hear that rackds live"}}}, nil
}

// Pusher returns what central may do in the hub's system account.
func Pusher() Rules {
	inbox := "_INBOX.central"
	return Rules{Inbox: inbox,
		Publish:   []Rule{{"$SYS.REQ.CLAIMS.UPDATE", "tell the hub of a site's account"}},
		Subscribe: []Rule{{inbox + ".>", "hear whether the hub took it"}}}
}
