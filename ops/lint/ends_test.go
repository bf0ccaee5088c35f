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
var pauses = []string{"pause", "wait", "time.After", "time.NewTimer", "time.Sleep"}

// giveUps are words of log lines that say that something is given up.
var giveUps = []string{"dropped", "is lost", "are lost", "ignored", "left out", "set aside", "not removed"}

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
	"central/api/lockwait.go waitFor tries again":             {"--lock-wait", "409 of the request"},
	"central/enrol/bus.go PushAccounts tries again":           {"none: again at intervals, while central runs", "log"},
	"central/ingest/belief.go refuse gives up":                {"each event once", "log, events_dropped_total"},
	"central/ingest/feed.go stored tries again":               {"answerWithin, settled", "log, and the site is opened anew"},
	"central/ingest/feed.go take acknowledges":                {"after the commit that applied or set it aside", "events_applied_total, events_set_aside_total"},
	"central/ingest/ingest.go ingest gives up":                {"older than what was applied", "events_dropped_total"},
	"central/ingest/ingest.go insist gives up":                {"none: events wait as long as the database's trouble lasts", "/readyz, ingest_errors_total, events_age_seconds"},
	"central/ingest/ingest.go insist tries again":             {"none: events wait as long as the database's trouble lasts", "/readyz, ingest_errors_total, events_age_seconds"},
	"central/ingest/setaside.go keepUnread gives up":          {"MostUnreadable are kept; none for the database's trouble", "events_set_aside, central event list, /readyz"},
	"central/ingest/setaside.go keepUnread tries again":       {"MostUnreadable are kept; none for the database's trouble", "events_set_aside, central event list, /readyz"},
	"central/ingest/setaside.go setAside gives up":            {"mostRefused are kept, then events wait", "events_set_aside, central event list, the node's history"},
	"central/ingest/setaside.go troubled tries again":         {"none, see insist", "/readyz, ingest_errors_total"},
	"central/ingest/trim.go took gives up":                    {"answerWithin; again after as many bytes", "log"},
	"central/inspection/call.go Make tries again":             {"the rule's retries", "log"},
	"central/inspection/extra.go extraHardware gives up":      {"a part of one inspection's data", "log"},
	"central/inspection/interfaces.go nics gives up":          {"a part of one inspection's data", "log"},
	"central/inspection/lldp.go lldp gives up":                {"a part of one inspection's data", "log"},
	"central/inspection/process.go Rules gives up":            {"a part of one inspection's data", "log"},
	"central/relay/documents.go dropDrive gives up":           {"writeTimeout; the drive goes after DrivesMaxAge", "log"},
	"central/roster/roster.go read gives up":                  {"each key once", "log"},
	"central/sites/groups.go keepGroups tries again":          {"none: again at intervals, while the site is open", "log"},
	"central/sites/set.go Run tries again":                    {"none: again at intervals, while central runs", "/readyz, site_connected"},
	"central/store/retry.go retry tries again":                {"maxAttempts", "503 of the request, ErrBusy"},
	"central/watchdog/watchdog.go Run tries again":            {"none: again at each look", "log"},
	"protocol/bus/bus.go persist tries again":                 {"the caller's context", "log, /readyz"},
	"protocol/bus/dial.go tell tries again":                   {"none: again while the program runs", "log, /readyz, /healthz"},
	"protocol/bus/follow.go Follow tries again":               {"the caller's context", "log"},
	"protocol/membership/renew.go renewAndTell tries again":   {"none: KeepFresh asks again until the certificate ends", "log, central member list"},
	"protocol/membership/renew.go KeepFresh tries again":      {"none: again until the certificate ends", "log, central member list"},
	"rackd/agentclient/agentclient.go insist tries again":     {"attempts", "last_error"},
	"rackd/conductor/conductor.go reportEnded tries again":    {"none: again each minute until central has heard", "log"},
	"rackd/conductor/errand.go runErrandStep tries again":     {"the step's retries", "last_error"},
	"rackd/conductor/power.go reach tries again":              {"limit", "last_error"},
	"rackd/conductor/unseal.go openArgs tries again":          {"succeededWithin", "last_error"},
	"rackd/conductor/questions.go heardOf tries again":        {"hearWithin", "503 of the request"},
	"rackd/conductor/report.go end gives up":                  {"what is too large for the bus, once", "log, last_error"},
	"rackd/conductor/report.go insist tries again":            {"the work's context; ErrTooLarge fails the work", "log, last_error"},
	"rackd/conductor/report.go refreshPast tries again":       {"lagWithin", "log"},
	"rackd/conductor/report.go save tries again":              {"the work's context; ErrTooLarge fails the work", "log, last_error"},
	"rackd/conductor/rival.go lives tries again":              {"rivalTries, rivalTimeout", "the node's history, last_error"},
	"rackd/conductor/runner.go runStep tries again":           {"the step's retries, the state's deadline", "last_error"},
	"rackd/daemon/answers.go hear gives up":                   {"each question once", "log, 503 of the request"},
	"rackd/daemon/daemon.go build tries again":                {"none: again while rackd starts", "log, /healthz"},
	"rackd/driver/redfish/transport.go RoundTrip tries again": {"the request's context", "last_error"},
	"rackd/imagemirror/imagemirror.go look tries again":       {"none: again at growing intervals while the image is wanted", "log"},
	"rackd/lease/renew.go renew tries again":                  {"the lease's end", "log, /healthz"},
	"rackd/netboot/tftp/tftp.go Serve tries again":            {"none: again after a pause while rackd runs", "log"},
	"rackd/netboot/dhcp/serve.go serve tries again":           {"none: again after a pause while rackd runs", "log"},
	"rackd/powersync/look.go fault tries again":               {"again at the next read", "log"},
	"rackd/powersync/look.go look tries again":                {"again at the next read", "log"},
}

// What is acknowledged, given up or tried again has a bound, and an operator sees it. A new place
// fails here until it is listed with both.
func TestEndsAreListed(t *testing.T) {
	found := map[string]bool{}
	for _, root := range []string{"central", "rackd", "protocol"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") || strings.Contains(path, "central/metrics/") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, place := range findEnds(filepath.ToSlash(strings.TrimPrefix(path, "../../")), file) {
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
