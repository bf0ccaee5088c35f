package permit

import "github.com/ironyard/ironyard/protocol/bus"

// Central returns what central may do on a site's bus, through the site's JetStream
// domain. A server of the hub checks the subjects as they are said, one of the site
// itself, which central may be connected to where there is no hub, without the domain.
func Central(site string) (Rules, error) {
	if err := CheckSite(site); err != nil {
		return Rules{}, err
	}
	var all []Rule
	for _, p := range []struct{ api, keys string }{{"$JS." + site + ".API.", "$JS." + site + ".API."}, {"$JS.API.", ""}} {
		all = append(all, overAPI(&api{prefix: p.api}, p.keys)...)
	}
	say := &api{rules: all}
	for _, s := range []stream{nodes, work, alive, groups, drives} {
		say.say("flow control of its own consumers", "$JS.FC."+s.name+".>")
	}
	say.say("put config drives", drives.subjects+">")
	say.say("acknowledge events", "$JS.ACK."+ingest+".>")
	say.say("ask rackds", "ASK.>")
	inbox := "_INBOX.central"
	return Rules{Publish: say.rules, Inbox: inbox, Subscribe: []Rule{{inbox + ".>", "hear answers, and what its consumers deliver"},
		{"BEAT.>", "hear that rackds live"}}}, nil
}

var ingest = events.name + "." + bus.IngestConsumer

// overAPI are central's requests to JetStream; keys is what the subjects of keys begin
// with.
func overAPI(js *api, keys string) []Rule {
	js.allow("know what the site's servers can do", "INFO")
	for _, s := range all {
		js.allow("open, make and change the bucket or stream", "STREAM.INFO."+s.name, "STREAM.CREATE."+s.name, "STREAM.UPDATE."+s.name)
	}
	for _, s := range []stream{nodes, work, alive, groups} {
		js.read(s, ">", "compare the bucket with the database")
		js.watched(s)
	}
	js.allow("look for the works that are open, many at once", "CONSUMER.CREATE."+work.name+".*")
	for _, s := range []stream{nodes, work, groups} {
		js.say("write what was asked for", keys+s.subjects+">")
	}
	js.read(drives, "M.>", "know which config drives are there")
	js.allow("remove the pieces of a config drive that is replaced", "STREAM.PURGE."+drives.name)
	js.watched(drives)
	js.allow("read events, each once among all replicas",
		"CONSUMER.CREATE."+ingest, "CONSUMER.INFO."+ingest, "CONSUMER.MSG.NEXT."+ingest, "CONSUMER.UNPIN."+ingest)
	js.allow("remove events that it has applied", "STREAM.PURGE."+events.name)
	js.allow("read events again that were lost on their way", "CONSUMER.CREATE."+events.name+".*", "CONSUMER.MSG.NEXT."+events.name+".*",
		"CONSUMER.DELETE."+events.name+".*")
	return js.rules
}

// Pusher returns what central may do in the hub's system account.
func Pusher() Rules {
	inbox := "_INBOX.central"
	return Rules{Inbox: inbox,
		Publish:   []Rule{{"$SYS.REQ.CLAIMS.UPDATE", "tell the hub of a site's account"}},
		Subscribe: []Rule{{inbox + ".>", "hear whether the hub took it"}}}
}
