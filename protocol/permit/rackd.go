package permit

import (
	"errors"

	"github.com/ironyard/ironyard/protocol/bus"
)

// Rackd returns what a rackd of a conductor group may do on its site's bus; failoverOf
// are the groups that its group is a failover of.
func Rackd(group, name string, failoverOf ...string) (Rules, error) {
	errs := []error{CheckGroup(group), CheckName(name)}
	for _, g := range failoverOf {
		errs = append(errs, CheckGroup(g))
	}
	if err := errors.Join(errs...); err != nil {
		return Rules{}, err
	}
	js := &api{prefix: "$JS.API."}
	for _, s := range all {
		js.allow("open the bucket or stream", "STREAM.INFO."+s.name)
	}
	for _, g := range append([]string{group}, failoverOf...) {
		token := bus.GroupToken(g)
		js.read(nodes, token+".>", "read the nodes of the group")
		js.read(work, token+".>", "read the work of the group")
		js.say("take work and write its checkpoints", work.subjects+token+".>")
		js.read(consoles, token+".>", "go on with the logs of consoles of the group, which are sealed for it")
		js.say("copy what machines of the group write to their consoles", consoles.subjects+token+".>")
		js.say("report what happened", events.subjects+token+".>")
		js.say("tell what the sensors of the group's machines say", bus.SensorSubject("*", g, "*"))
		js.say("hand on what agents and machines of the group say", "HANDON."+token+".*")
	}
	js.read(alive, ">", "know who lives: failover looks at other groups too")
	js.read(groups, ">", "know which groups stand in for which")
	js.read(drives, "M.>", "find config drives, which are sealed for their group")
	js.read(drives, "C.>", "fetch config drives")
	js.allow("fetch one config drive", "CONSUMER.CREATE."+drives.name+".*."+drives.subjects+"C.*")
	for _, s := range all[:6] { // events are central's to read
		js.watched(s)
		js.say("flow control of its own consumers", "$JS.FC."+s.name+".>")
	}
	js.say("renew its lease", alive.subjects+bus.MemberKey(group, name))
	js.say("say that its lease was renewed, or that another one has run out", bus.BeatSubject(group, name))
	inbox := "_INBOX.rackd." + bus.GroupToken(name)
	hear := []Rule{{inbox + ".>", "hear answers"}, {bus.AskSubject(group, name), "answer central's questions"}}
	for _, g := range append([]string{group}, failoverOf...) {
		hear = append(hear, Rule{bus.HandOnSubject(g, name), "hear what other rackds of the group hand on"})
	}
	return Rules{Publish: js.rules, Answers: true, Inbox: inbox, Subscribe: hear}, nil
}
