package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// settles are the methods by which a message of the bus is settled.
var settles = []string{"Ack", "DoubleAck", "Nak", "NakWithDelay", "Term", "TermWithReason"}

// pauses are the calls after which a loop tries again.
var pauses = []string{"pause", "driver.Pause", "wait", "time.After", "time.NewTimer", "time.Sleep"}

// giveUps are words of log lines that say that something is given up.
var giveUps = []string{"dropped", "is lost", "are lost", "ignored", "left out", "set aside", "not removed", "not powered off", "is too large"}

// findEnds returns the places of a file that acknowledge, give up or try again, as "FILE FUNCTION
// WHAT", each once.
func findEnds(name string, file *ast.File) (places []string) {
	add := func(function, what string) {
		if place := name + " " + function + " " + what; !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				what, said := callee(n), ""
				if len(n.Args) > 0 {
					if lit, ok := n.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
						said, _ = strconv.Unquote(lit.Value)
					}
				}
				switch method := what[strings.LastIndexByte(what, '.')+1:]; {
				case (method == "Tried" || method == "Failed") && len(n.Args) >= 3: // of trouble.Spell and Spells
					add(f.Name.Name, "tries again")
				case strings.Contains(what, ".") && slices.Contains(settles, method) && len(n.Args) <= 1:
					add(f.Name.Name, "acknowledges")
				case slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, method):
					for _, word := range giveUps {
						if strings.Contains(said, word) {
							add(f.Name.Name, "gives up")
						}
					}
					if strings.Contains(said, "trying again") {
						add(f.Name.Name, "tries again")
					}
				}
			case *ast.SelectorExpr:
				if n.Sel.Name == "EventsDropped" {
					add(f.Name.Name, "gives up")
				}
			case *ast.ForStmt:
				ast.Inspect(n.Body, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok && slices.Contains(pauses, callee(call)) {
						add(f.Name.Name, "tries again")
					}
					return true
				})
			}
			return true
		})
	}
	return places
}

// callee is what a call calls, as "x.y".
func callee(c *ast.CallExpr) string {
	var name func(ast.Expr) string
	name = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.Ident:
			return e.Name
		case *ast.SelectorExpr:
			return name(e.X) + "." + e.Sel.Name
		case *ast.CallExpr:
			return name(e.Fun) + "()"
		}
		return "?"
	}
	return name(c.Fun)
}

// end is what bounds a place that acknowledges, gives up or tries again, and where an operator
// sees that it does.
type end struct{ bound, seen string }

// ends are all such places.
var ends = map[string]end{
	"rackd/daemon/media.go bringForMedium tries again":             {"bringForBMC, or the end of the request", "log and the answer, 503"},
	"rackd/iscsi/disk.go Wait tries again":                         {"tries", "last_error of the step"},
	"central/api/node_console.go consoleLog tries again":           {"heldWithin", "the answer, 503"},
	"central/console/viewer.go insist tries again":                 {"openedWithin, or ViewerSilent once it is open", "the session's notes, and the reason of its end"},
	"central/console/session.go show tries again":                  {"silentFor", "the session's notes, and the reason of its end"},
	"rackd/conductor/deletednode.go takeBack tries again":          {"deletedWithin", "nothing is to be seen: the work was ended by another"},
	"rackd/conductor/flow/leave.go offForGood tries again":         {"lateOn", "last_error of the work"},
	"rackd/conductor/flow/adjust.go shows tries again":             {"showsWithin", "last_error of the request"},
	"central/sites/consoles.go keepConsoles tries again":           {"none: again each consolesEvery; rackds keep logs in memory meanwhile", "log of central and of rackds"},
	"rackd/console/copier.go sweepCopies tries again":              {"none: again within two sweepEvery", "log"},
	"rackd/console/copier.go load tries again":                     {"loadTries, then the log begins empty", "log; the session's notes meanwhile"},
	"rackd/console/copier.go copyLog tries again":                  {"none: again after copyAgain while the log has what the copy has not", "log, at the begin, each trouble.Remind and at the end; ironyard_rackd_console_copies_total"},
	"rackd/console/held.go run tries again":                        {"until the console is disabled, with pauses of AgainAtMost at most", "the session's notes, ironyard_rackd_consoles, the log"},
	"rackd/driver/ipmi/lan/console.go receive tries again":         {"refusals in a row", "the session's notes"},
	"rackd/driver/redfish/observe.go awaitSetting tries again":     {"looksAtBoot", "the error of the request or step"},
	"rackd/driver/bringup/reset.go agentStays tries again":         {"its own bound; the step's deadline", "log, last_error of the step"},
	"rackd/driver/bringup/power.go restartByAgent tries again":     {"Settings.PowerWait", "last_error of the step"},
	"rackd/driver/iboot/dxp.go read tries again":                   {"Options.Tries", "last_error of the step"},
	"rackd/driver/vbox/vbox.go patiently tries again":              {"lockTries", "last_error of the step"},
	"rackd/driver/snmp/power.go awaitOff tries again":              {"Options.PowerTimeout", "last_error of the step"},
	"rackd/driver/snmp/power.go switchTo tries again":              {"Options.Hold, once for each time that the outlet was told to go off", "nothing: the outlet goes on then"},
	"central/daemon/notify.go publish gives up":                    {"what is too large for the bus, once", "log; GET /v1/notifications has it"},
	"rackd/daemon/answers.go hear tries again":                     {"each question once: its asker asks again", "log, at the begin, each trouble.Remind and at the end"},
	"central/feed/publish.go publish tries again":                  {"none: again each publishEvery at last; changes are kept as --keep-changes says", "log, at the begin, each trouble.Remind and at the end"},
	"central/feed/feed.go Run tries again":                         {"none: again at each round", "log, at the begin, each trouble.Remind and at the end"},
	"central/retention/retention.go Round tries again":             {"none: page after page of nodes, which end", "rows_removed_total"},
	"central/retention/retention.go Run gives up":                  {"the next round, an hour later, finds the rows again", "log"},
	"central/retention/retention.go empty tries again":             {"batch after batch, until one is not full", "rows_removed_total"},
	"central/register/register.go Run tries again":                 {"none: again each Every", "log, at the begin, each trouble.Remind and at the end"},
	"central/relay/relay.go try tries again":                       {"none: again at its timer, while the site is open", "relay_errors_total for entries, log, at the begin, each trouble.Remind and at the end"},
	"central/inspection/caller.go Make gives up":                   {"the queue's 256 places: no event waits for servers that rules name", "log, once each dropsTold with their number"},
	"central/ingest/setaside.go relieved tries again":              {"none: it tells the end of what troubled tells", "log, at the begin, each trouble.Remind and at the end"},
	"central/api/lockwait.go waitFor tries again":                  {"--lock-wait", "409 of the request"},
	"central/enrol/bus.go PushAccounts tries again":                {"none: again each pushEvery, while central runs", "log, at the begin, each trouble.Remind and at the end"},
	"central/ingest/belief.go refuse gives up":                     {"each event once", "events_dropped_total, log (refusalsBurst lines each refusalsEvery)"},
	"central/ingest/feed.go stored tries again":                    {"settled within answerWithin", "nothing by itself; a stream that has lost its end is an error, with which the site is opened anew: log, /readyz"},
	"central/ingest/feed.go take acknowledges":                     {"after the commit that applied it or set it aside; what is older, a lie, or unreadable beyond MostUnreadable, after it was counted", "events_applied_total, events_set_aside_total, events_dropped_total"},
	"central/ingest/ingest.go ingest gives up":                     {"what is older than what was applied", "events_dropped_total by its reason"},
	"central/groupkeys/keeper.go Run tries again":                  {"none: again every 5 s, while central runs", "log, central key groups, group_keys_replacing_age_seconds"},
	"central/groupkeys/keys.go Run tries again":                    {"believed, then nothing is sealed for racks", "log, 500 of the request"},
	"central/ingest/ingest.go insist gives up":                     {"none: events wait as long as the database's trouble lasts", "/readyz, ingest_errors_total, events_age_seconds"},
	"central/ingest/ingest.go insist tries again":                  {"none: events wait as long as the database's trouble lasts", "/readyz, ingest_errors_total, events_age_seconds"},
	"central/ingest/setaside.go keepUnread gives up":               {"MostUnreadable are kept, and more are dropped", "events_set_aside, central event list, /readyz; events_dropped_total for each more, log (linesAtFirst, then one each linesEvery)"},
	"central/ingest/setaside.go keepUnread tries again":            {"MostUnreadable are kept; none for the database's trouble", "events_set_aside, central event list, /readyz"},
	"central/ingest/setaside.go drop gives up":                     {"mostRefused are kept, and more that no database could take are dropped", "events_set_aside, central event list; events_dropped_total, log (linesAtFirst, then one each linesEvery)"},
	"central/ingest/setaside.go setAside gives up":                 {"mostRefused are kept, then events wait", "events_set_aside, central event list, the node's history"},
	"central/ingest/setaside.go troubled tries again":              {"none, see insist: longestDelay between two attempts", "/readyz, ingest_errors_total, log, at the begin, each trouble.Remind and at the end"},
	"central/ingest/trim.go took gives up":                         {"answerWithin; again after as many bytes", "log"},
	"central/inspection/call.go Make tries again":                  {"the rule's retries, each within its timeout", "log"},
	"central/inspection/extra.go extraHardware gives up":           {"a part of one inspection's data", "log"},
	"central/inspection/interfaces.go nics gives up":               {"a part of one inspection's data", "log at level debug; the inventory that is kept has it"},
	"central/inspection/lldp.go lldp gives up":                     {"a part of one inspection's data, at most maxLLDP items of an interface", "log, a line for each interface with their number"},
	"central/inspection/process.go Rules gives up":                 {"a rule in each inspection, until it is written again: the API lets none in", "log"},
	"central/relay/documents.go removeDrive gives up":              {"the caller's writeTimeout or the client's five seconds; the drive goes after DrivesMaxAge", "log"},
	"central/roster/roster.go read gives up":                       {"at each look at the key, which each beat of that rackd causes", "log, each trouble.Remind; unreadable ones by Site.Refuse, counted"},
	"central/sites/groups.go keepGroups tries again":               {"none: again each groupsEvery, while the site is open", "log"},
	"central/sites/set.go Run tries again":                         {"none: again each reopenAfter, while central runs", "/readyz, site_connected, log once for each reason"},
	"central/store/retry.go retry tries again":                     {"maxAttempts", "503 of the request, ErrBusy"},
	"central/watchdog/watchdog.go Run tries again":                 {"none: again at each look", "log, at the begin, each trouble.Remind and at the end"},
	"protocol/bus/bus.go persist tries again":                      {"the caller's context: openTimeout of central, rackd's life", "log once for each reason; /healthz of rackd; central's site is not ready: /readyz"},
	"protocol/bus/dial.go tell tries again":                        {"none: again while the program runs", "log, /readyz, /healthz"},
	"protocol/bus/follow.go Follow tries again":                    {"the caller's context, a second between two", "log of rackd (Site.Trouble), and its lease is not renewed: /healthz"},
	"protocol/membership/renew.go renewAndTell tries again":        {"none: KeepFresh asks again until the certificate ends", "log, central member list"},
	"protocol/membership/renew.go KeepFresh tries again":           {"none: again until the certificate ends", "log, central member list"},
	"rackd/agentclient/agentclient.go insist tries again":          {"attempts, within the context of the step", "last_error, once the step's own retries are used up"},
	"rackd/answer/answer.go heardOf tries again":                   {"hearWithin", "503 of the request"},
	"rackd/conductor/conductor.go reportEnded tries again":         {"none: each minute until central has heard; after a failure at the next look at the node", "log, at the begin, each trouble.Remind and at the end"},
	"rackd/conductor/flow/power.go awaitPower tries again":         {"limit", "last_error"},
	"rackd/conductor/medium.go readDrive tries again":              {"driveAgain", "log; the BMC's request gets a 503"},
	"rackd/conductor/idle.go tellIdle tries again":                 {"none: again with the next read of the machine", "log, at the begin, each trouble.Remind and at the end"},
	"rackd/conductor/runner/awaited.go goesOn tries again":         {"limit of the node's state, from when the step first waited", "log, at the begin, each trouble.Remind and at the end; last_error"},
	"rackd/conductor/runner/checkpoint.go refreshPast tries again": {"lagWithin", "log"},
	"rackd/conductor/runner/checkpoint.go save tries again":        {"the work's context; ErrTooLarge fails the work", "log, at the begin, each trouble.Remind and at the end, last_error"},
	"rackd/conductor/runner/ending.go end gives up":                {"what the agent has sent and is too large for the bus, once for each", "the node's history, last_error where the work failed, log"},
	"rackd/conductor/runner/errand.go runErrandStep tries again":   {"the step's retries; each run ends by the bounds of its BMC calls and by the step's own limit, no deadline covers them", "last_error"},
	"rackd/conductor/runner/identity.go askBMC tries again":        {"identityTries, identityWithin", "log"},
	"rackd/conductor/runner/rival.go lives tries again":            {"rivalTries, rivalTimeout", "the node's history, last_error"},
	"rackd/conductor/runner/steps.go runStep tries again":          {"the step's retries, the state's deadline", "last_error"},
	"rackd/conductor/service.go Insist tries again":                {"the work's context; ErrTooLarge fails the work", "log, at the begin, each trouble.Remind and at the end, last_error"},
	"rackd/daemon/answers.go hear gives up":                        {"each question once", "log, 503 of the request after ask.Timeout"},
	"rackd/daemon/daemon.go build tries again":                     {"none: again while rackd starts", "log, /healthz"},
	"rackd/imagemirror/imagemirror.go look tries again":            {"none: again after a pause that stays the same, while the image is wanted", "log"},
	"rackd/lease/confirm.go Confirm tries again":                   {"until Lease.Check fails, bus.LeaseTTL at most after the last renewal", "the write is refused as fenced: log, metric; the work goes on when a lease is held"},
	"rackd/lease/renew.go renew tries again":                       {"none: again each bus.LeaseRenew while rackd runs; a lease that ends stops what rackd does at machines", "lease age in the metrics, /healthz, log, at the begin, each trouble.Remind and at the end"},
	"rackd/netboot/tftp/tftp.go Serve tries again":                 {"none: again after a pause while rackd runs", "log"},
	"rackd/imagecache/verify.go verify gives up":                   {"one look: the damaged image is dropped and fetched again", "log, metric"},
	"rackd/netboot/dhcp/scout.go ask gives up":                     {"the probe's own time; the addresses count as free for ten minutes", "log"},
	"rackd/netboot/dhcp/scout.go scout tries again":                {"none: it probes while rackd runs", "log"},
	"rackd/netboot/dhcp/serve6.go Serve tries again":               {"none: again after a pause while rackd runs", "log"},
	"rackd/netboot/dhcp/serve.go serve tries again":                {"none: again after a pause while rackd runs", "log"},
	"rackd/netboot/routeradv/routeradv.go listen tries again":      {"none: again after a pause while rackd runs", "log"},
	"rackd/driver/bmc/http.go RoundTrip tries again":               {"readTries reads, readPause between them, HTTPOptions.AnswerTimeout each", "last_error"},
	"rackd/driver/ipmi/conn.go askVia tries again":                 {"busyPauses, one for each repetition, Options.Timeout each", "last_error"},
	"rackd/driver/ipmi/conn.go tellOf tries again":                 {"busyPauses, one for each repetition, Options.Timeout each", "last_error"},
	"rackd/driver/ipmi/sel.go ClearLog tries again":                {"clearLooks, clearPause apart", "last_error, the node's history"},
	"rackd/driver/ipmi/power.go softReboot tries again":            {"Options.SoftOff", "last_error"},
}

// What is acknowledged, given up or tried again has a bound, and an operator sees it. A new place
// fails here until it is listed with both.
func TestEndsAreListed(t *testing.T) {
	found := map[string]bool{}
	for _, root := range []string{"central", "rackd", "protocol"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") || strings.Contains(path, "central/metrics/") || strings.Contains(path, "protocol/trouble/") {
				return err
			}
			for _, place := range findEnds(filepath.ToSlash(strings.TrimPrefix(path, "../../")), parsed(t, path)) {
				found[place] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for place := range found {
		if _, listed := ends[place]; !listed {
			t.Errorf("%s: what bounds it, and where does an operator see it? List it in ends", place)
		}
	}
	for place, e := range ends {
		if !found[place] {
			t.Errorf("%s is listed and is not there any more", place)
		}
		if e.bound == "" || e.seen == "" {
			t.Errorf("%s is listed without its bound, or without where it is seen", place)
		}
	}
}

// A place that acknowledges, gives up or tries again is found in each of its forms.
func TestEndsAreFound(t *testing.T) {
	for code, want := range map[string]string{
		"m.Ack()":                                 "acknowledges",
		"m.NakWithDelay(time.Second)":             "acknowledges",
		"m.TermWithReason(why)":                   "acknowledges",
		`log.Error("event dropped", "id", id)`:    "gives up",
		"m.EventsDropped.Inc()":                   "gives up",
		`log.Warn("not sent, trying again")`:      "tries again",
		"for { if f() { break }; pause(ctx, d) }": "tries again",
		"for n < 3 { <-time.After(d) }":           "tries again",
		"for range list { f() }":                  "",
		`log.Info("done")`:                        "",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() { "+code+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		got, want := findEnds("x.go", file), want
		if want == "" && len(got) != 0 || want != "" && !slices.Equal(got, []string{"x.go f " + want}) {
			t.Errorf("%s: found %q, want %q", code, got, want)
		}
	}
}
