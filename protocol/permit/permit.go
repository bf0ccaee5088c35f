// Package permit says what each party may say and hear on a site's bus, as subjects
// of NATS: the one list that credentials are made of, that the docs show and that
// tests try to cross.
//
// It may import protocol/bus. Invariants:
//   - A rackd writes its own lease, and work and events of the groups that it serves;
//     it reads nodes and work of those groups, and no others'.
//   - Nobody but central makes or changes a bucket or a stream, and nobody deletes one.
//   - Reading is allowed by subjects that name what is read: a consumer that is
//     created, or a message that is fetched, carries its filter in the request's own
//     subject, where the server checks it. Requests without one are not allowed, but for
//     central's consumers of several keys of WORK, of which it may read all.
//   - A consumer's name is random and cannot be listed, which is why deleting by name
//     needs no narrower rule.
package permit

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/ironyard/ironyard/protocol/bus"
)

// Rule is a subject, perhaps with wildcards, and what it is needed for.
type Rule struct{ Subject, Why string }

// Rules are what one party may do. What is not listed is forbidden.
type Rules struct {
	Publish, Subscribe []Rule
	// Answers: it may answer what it is asked, at the subject that the question
	// names for the answer.
	Answers bool
	// Inbox is the prefix of the subjects at which it hears answers.
	Inbox string
}

// Subjects returns the subjects of rules, sorted, each once.
func Subjects(rules []Rule) []string {
	list := make([]string, len(rules))
	for i, r := range rules {
		list[i] = r.Subject
	}
	slices.Sort(list)
	return slices.Compact(list)
}

var (
	groupName = regexp.MustCompile(`^[A-Za-z0-9_.-]{0,255}$`)
	partyName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,255}$`)
	siteName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)
)

// CheckGroup refuses what is no conductor group's name: one with a wildcard would
// open every other group.
func CheckGroup(group string) error {
	if !groupName.MatchString(group) {
		return fmt.Errorf("conductor group %.80q: want letters, digits, dots, dashes and underscores", group)
	}
	return nil
}

// CheckName refuses what is no rackd's or server's name.
func CheckName(name string) error {
	if !partyName.MatchString(name) {
		return fmt.Errorf("name %.80q: want letters, digits, dots, dashes and underscores", name)
	}
	return nil
}

// CheckSite refuses what is no site's name, which is a JetStream domain.
func CheckSite(site string) error {
	if !siteName.MatchString(site) {
		return fmt.Errorf("site %.80q: want letters, digits, dashes and underscores", site)
	}
	return nil
}

// stream is the stream below a bucket, and the subjects of its keys.
type stream struct{ name, subjects string }

func bucket(name string) stream { return stream{"KV_" + name, "$KV." + name + "."} }

var (
	nodes    = bucket(bus.NodesBucket)
	work     = bucket(bus.WorkBucket)
	alive    = bucket(bus.AliveBucket)
	groups   = bucket(bus.GroupsBucket)
	consoles = bucket(bus.ConsolesBucket)
	drives   = stream{"OBJ_" + bus.ConfigDrives, "$O." + bus.ConfigDrives + "."}
	events   = stream{bus.EventsStream, "EVENTS."}
)

var all = []stream{nodes, work, alive, groups, drives, consoles, events}

// api collects requests to JetStream, whose subjects begin with prefix.
type api struct {
	prefix string
	rules  []Rule
}

func (a *api) allow(why string, subjects ...string) {
	for _, s := range subjects {
		a.rules = append(a.rules, Rule{a.prefix + s, why})
	}
}

// read allows to fetch and to watch the keys of s that begin with keys.
func (a *api) read(s stream, keys, why string) {
	a.allow(why, "DIRECT.GET."+s.name+"."+s.subjects+keys, "CONSUMER.CREATE."+s.name+".*."+s.subjects+keys)
}

// watched allows what goes with consumers of s, whatever their filter.
func (a *api) watched(s stream) {
	a.allow("end and look after its own consumers", "CONSUMER.DELETE."+s.name+".*", "CONSUMER.INFO."+s.name+".*")
}

// say allows to publish outside the API.
func (a *api) say(why string, subjects ...string) {
	for _, s := range subjects {
		a.rules = append(a.rules, Rule{s, why})
	}
}
