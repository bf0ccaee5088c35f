package clients

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// recordings are the files of what running Ironics said to some thousand requests each: first
// what stands for longer texts ("let NAME = TEXT", which lines have as {NAME}) and the sets of
// names that its objects have, then scenarios of lines,
//
//	VERSION METHOD PATH [with HEADERS] [raw TEXT | BODY] = STATUS KIND [at] [-> NAME]
//
// where KIND is a set of names, "fault" or "framework" for the two shapes of errors, "list",
// "object" or "text" for other bodies and - for none, "at" stands for a Location, and NAME
// for the resource's UUID in later lines. A setup line is not compared, but must
// succeed; an undo line need not. wait is for the provision state of a node.
var recordings = []struct {
	file       string
	version    string // of setup lines, waits and cleaning up
	deliberate []difference
}{
	{"ironic-21.4.txt", "1.82", deliberate},
	{"ironic-39-nodes.txt", "1.115", deliberateNodes39},
	{"ironic-21.4-rest.txt", "1.82", deliberateRest},
	{"ironic-39-rest.txt", "1.115", deliberateRest39},
	{"ironic-39-rules.txt", "1.115", deliberateRules39},
}

//go:embed testdata/ironic-*.txt
var recorded embed.FS

// recording is a client that repeats what was asked of Ironic.
type recording struct {
	*testing.T
	endpoint   string
	version    string
	deliberate []difference
	lets       [][2]string // what stands for longer texts
	sets       map[string]string
	names      map[string]string // UUIDs of the scenario
	compared   int
	excused    map[string]int // by reason
}

// TestIronic asks a fleet what Ironics were asked, and wants the same statuses, kinds of
// bodies and names in them, except where a recording's differences say why not.
func TestIronic(t *testing.T) {
	endpoint := fleet(t)
	for _, of := range recordings {
		t.Run(of.file, func(t *testing.T) {
			text, err := recorded.ReadFile("testdata/" + of.file)
			if err != nil {
				t.Fatal(err)
			}
			r := &recording{T: t, endpoint: endpoint, version: of.version, deliberate: of.deliberate, sets: map[string]string{}, excused: map[string]int{}}
			r.repeat(text)
		})
	}
}

// repeat plays a whole recording.
func (r *recording) repeat(text []byte) {
	scenario, failed := "", false
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if name, begins := strings.CutPrefix(line, "scenario "); begins {
			r.clear()
			scenario, failed = name, false
			r.names = map[string]string{}
			continue
		}
		if line == "" || failed {
			continue
		}
		if let, isLet := strings.CutPrefix(line, "let "); isLet {
			name, text, _ := strings.Cut(let, " = ")
			r.lets = append(r.lets, [2]string{"{" + name + "}", text})
			continue
		}
		if name, set, found := strings.Cut(line, ": "); found && scenario == "" {
			r.sets[name] = set
			continue
		}
		if err := r.play(scenario, line); err != nil {
			failed = true
			r.Errorf("%s: %s: %v", scenario, line, err)
		}
	}
	if err := lines.Err(); err != nil {
		r.Fatal(err)
	}
	for _, d := range r.deliberate {
		if r.excused[d.reason] == 0 {
			r.Errorf("nothing differs any more because %s: take that out of the list", d.reason)
		}
	}
	r.Logf("%d answers compared, %d of them differ on purpose", r.compared, sum(r.excused))
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// said is what an answer is compared by.
type said struct {
	status   int
	kind     string
	location bool
}

func (s said) String() string { return fmt.Sprintf("%d %s, location %t", s.status, s.kind, s.location) }

// play does what a line says. An error ends the scenario.
func (r *recording) play(scenario, line string) error {
	line = r.fill(line)
	if rest, isWait := strings.CutPrefix(line, "wait "); isWait {
		node, states, _ := strings.Cut(rest, " ")
		return r.wait(node, strings.Split(states, "|"))
	}
	if rest, isSetup := strings.CutPrefix(line, "setup "); isSetup {
		rest, name, _ := strings.Cut(rest, " -> ")
		got, body, err := r.ask(r.version + " " + rest)
		if err == nil && got.status >= 300 {
			err = fmt.Errorf("%d %s", got.status, body)
		}
		r.keep(name, body)
		return err
	}
	if rest, isUndo := strings.CutPrefix(line, "undo "); isUndo {
		_, _, err := r.ask(r.version + " " + rest)
		return err
	}
	at := strings.LastIndex(line, " = ")
	question, answer := line[:at], line[at+3:]
	answer, name, _ := strings.Cut(answer, " -> ")
	parts := strings.Fields(answer)
	status, err := strconv.Atoi(parts[0])
	if err != nil {
		return err
	}
	want := said{status, parts[1], len(parts) > 2}
	got, body, err := r.ask(question)
	if err != nil {
		return err
	}
	r.keep(name, body)
	r.compared++
	if difference := r.compare(want, got, body); difference != "" {
		if reason := excuse(r.deliberate, scenario+" "+question, want.status, got.status); reason != "" {
			r.excused[reason]++
		} else {
			r.Errorf("%s: %s: %s: %.300s", scenario, question, difference, body)
		}
	}
	return nil
}

// fill puts texts and UUIDs in the places of their names. A text may have names of those
// before it.
func (r *recording) fill(line string) string {
	for _, let := range slices.Backward(r.lets) {
		line = strings.ReplaceAll(line, let[0], let[1])
	}
	for name, id := range r.names {
		line = strings.ReplaceAll(line, "{"+name+"}", id)
	}
	return line
}

func (r *recording) keep(name string, body []byte) {
	var made struct{ UUID string }
	if name != "" && json.Unmarshal(body, &made) == nil && made.UUID != "" {
		r.names[name] = made.UUID
	}
}

// question is the form of a request in the recording.
var question = regexp.MustCompile(`^(\S+) (\S+) (\S+)( with (\{.*?\}))?( raw (".*"))?( (.*))?$`)

// ask sends a request and sorts its answer.
func (r *recording) ask(line string) (said, []byte, error) {
	m := question.FindStringSubmatch(line)
	if m == nil {
		return said{}, nil, errors.New("that is no request")
	}
	text := m[9]
	if m[7] != "" {
		if err := json.Unmarshal([]byte(m[7]), &text); err != nil {
			return said{}, nil, err
		}
	}
	req, err := http.NewRequestWithContext(r.Context(), m[2], r.endpoint+m[3], strings.NewReader(text))
	if err != nil {
		return said{}, nil, err
	}
	if m[1] != "-" {
		req.Header.Set("X-OpenStack-Ironic-API-Version", m[1])
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	if m[5] != "" {
		req.Header.Del("Accept")
		req.Header.Del("Content-Type")
		headers := map[string]string{}
		if err := json.Unmarshal([]byte(m[5]), &headers); err != nil {
			return said{}, nil, err
		}
		for name, value := range headers {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return said{}, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return said{resp.StatusCode, kindOf(resp.StatusCode, body), resp.Header.Get("Location") != ""}, body, err
}

// kindOf is the kind of an answer's body: for an object, the names in it.
func kindOf(status int, body []byte) string {
	if len(body) == 0 {
		return "-"
	}
	var object map[string]any
	if json.Unmarshal(body, &object) != nil {
		if bytes.HasPrefix(body, []byte("[")) {
			return "list"
		}
		return "text"
	}
	if status >= 400 {
		var fault map[string]any
		message, _ := object["error_message"].(string)
		switch {
		case json.Unmarshal([]byte(message), &fault) != nil:
			return "text"
		case fault["faultstring"] != nil:
			return "fault"
		}
		return "framework"
	}
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// compare says what differs; empty for nothing.
func (r *recording) compare(want, got said, body []byte) string {
	wanted := want.kind
	if set, isSet := r.sets[want.kind]; isSet {
		wanted = set
	}
	kind := wanted == "any" || wanted == got.kind || wanted == "object" && bytes.HasPrefix(body, []byte("{"))
	if want.status == got.status && kind && want.location == got.location {
		return ""
	}
	if want.status == got.status && want.status < 300 {
		return fmt.Sprintf("it has %s, Ironic's %s", without(got.kind, wanted), without(wanted, got.kind))
	}
	return fmt.Sprintf("%v, want %v", got, want)
}

// without lists the words of a that b has not.
func without(a, b string) []string {
	has := strings.Fields(b)
	return slices.DeleteFunc(strings.Fields(a), func(name string) bool { return slices.Contains(has, name) })
}

// wait waits until a node rests in one of the states.
func (r *recording) wait(node string, states []string) error {
	var n struct {
		State       string `json:"provision_state"`
		Reservation string
		Target      string `json:"target_power_state"`
		Error       string `json:"last_error"`
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		_, body, err := r.ask(r.version + " GET /v1/nodes/" + node)
		if err != nil {
			return err
		}
		n.Reservation, n.Target = "", ""
		if err := json.Unmarshal(body, &n); err != nil {
			return err
		}
		if n.Reservation == "" && n.Target == "" && slices.Contains(states, n.State) {
			return nil
		}
	}
	return fmt.Errorf("it is %s, %s", n.State, n.Error)
}

// clear deletes all nodes, and what else a scenario may have left.
func (r *recording) clear() {
	r.Helper()
	for _, id := range r.all("nodes") {
		for _, line := range []string{"PUT /v1/nodes/" + id + "/maintenance", "PATCH /v1/nodes/" + id + ` [{"op":"remove","path":"/protected"}]`} {
			if _, _, err := r.ask(r.version + " " + line); err != nil {
				r.Fatal(err)
			}
		}
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			got, body, err := r.ask(r.version + " DELETE /v1/nodes/" + id)
			if err == nil && got.status == http.StatusNoContent {
				break
			}
			if time.Now().After(deadline) {
				r.Fatalf("node %s is still there: %v %s", id, err, body)
			}
		}
	}
	for _, kind := range []string{"allocations", "chassis", "deploy_templates", "runbooks", "inspection_rules"} {
		for _, id := range r.all(kind) {
			if got, body, err := r.ask("1.115 DELETE /v1/" + kind + "/" + id); err != nil || got.status != http.StatusNoContent {
				r.Fatalf("delete %s %s: %v %v: %s", kind, id, got, err, body)
			}
		}
	}
}

// all returns the UUIDs of what is in a collection.
func (r *recording) all(kind string) []string {
	r.Helper()
	var list map[string]json.RawMessage
	var items []struct{ UUID string }
	_, body, err := r.ask("1.115 GET /v1/" + kind)
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	if err == nil {
		err = json.Unmarshal(list[kind], &items)
	}
	if err != nil {
		r.Fatalf("%s: %v: %s", kind, err, body)
	}
	var ids []string
	for _, item := range items {
		ids = append(ids, item.UUID)
	}
	return ids
}
