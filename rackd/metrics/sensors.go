package metrics

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reading is what the sensors of a machine told at one moment: by type and name, in the fields of driver.Sensor.
type Reading struct {
	Node, Name, Instance string // UUID and name of the node, UUID of its instance
	At                   time.Time
	Types                map[string]map[string]map[string]any
}

// The bounds of what the BMCs of a rackd's nodes can make of Prometheus. Names and labels come from them.
const (
	// sensorsOfNode bounds the series of a node; what comes later in the order of types and names is left out.
	sensorsOfNode = 256
	// sensorNames bounds the names of metrics of all nodes. A server of one model has 10 to 60.
	sensorNames = 1000
	// sensorText bounds a label, in bytes; a name may have as many.
	sensorText = 120
)

// Sensors are the gauges of machines' sensors, under the names and labels of ironic-prometheus-exporter. It is a
// prometheus.Collector whose metrics are known only once machines have told them. Safe for concurrent use.
type Sensors struct {
	// Keep says which nodes are still this rackd's. It is asked at each scrape.
	keep func(node string) bool
	// stale is for how long a reading is shown.
	stale time.Duration

	mu    sync.Mutex
	nodes map[string]nodeSensors
	names map[string]int // by metric: of how many nodes' series it is
	left  uint64         // series that had no room
}

type nodeSensors struct {
	at   time.Time
	list []sensorGauge
}

type sensorGauge struct {
	name           string
	labels, values []string
	value          float64
}

var (
	sensorSeries = prometheus.NewDesc("ironyard_rackd_sensor_series", "Series of machines' sensors (baremetal_*) that this rackd shows.", nil, nil)
	sensorNodes  = prometheus.NewDesc("ironyard_rackd_sensor_nodes", "Nodes whose sensors this rackd shows.", nil, nil)
	sensorLeft   = prometheus.NewDesc("ironyard_rackd_sensor_series_left_out_total", "Series of machines' sensors that had no room: a node has 256 at most, all nodes 1,000 names of metrics.", nil, nil)
)

// NewSensors returns gauges without a reading. keep says at each scrape which nodes are this rackd's; a reading is shown for
// the time stale.
func NewSensors(reg prometheus.Registerer, keep func(node string) bool, stale time.Duration) *Sensors {
	s := &Sensors{keep: keep, stale: stale, nodes: map[string]nodeSensors{}, names: map[string]int{}}
	reg.MustRegister(s, sensorCounts{s})
	return s
}

// Describe tells nothing, since names come with the readings: the registry checks each scrape instead.
func (*Sensors) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *Sensors) Collect(to chan<- prometheus.Metric) {
	for _, g := range s.shown() {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(g.name, sensorHelp(g.name), g.labels, nil), prometheus.GaugeValue, g.value, g.values...)
	}
}

// shown forgets the nodes that are no longer to be shown, and returns the gauges of the others.
func (s *Sensors) shown() (list []sensorGauge) {
	s.mu.Lock()
	ids := slices.Collect(maps.Keys(s.nodes))
	s.mu.Unlock()
	gone := map[string]bool{}
	for _, id := range ids { // asked without the lock: it may take that of others
		gone[id] = !s.keep(id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.nodes {
		if gone[id] || time.Since(n.at) > s.stale {
			s.forget(id)
			continue
		}
		list = append(list, n.list...)
	}
	return list
}

// sensorCounts tells how many series there are.
type sensorCounts struct{ s *Sensors }

// Describe implements prometheus.Collector.
func (sensorCounts) Describe(to chan<- *prometheus.Desc) {
	to <- sensorSeries
	to <- sensorNodes
	to <- sensorLeft
}

// Collect implements prometheus.Collector.
func (c sensorCounts) Collect(to chan<- prometheus.Metric) {
	series := len(c.s.shown())
	c.s.mu.Lock()
	nodes, left := len(c.s.nodes), c.s.left
	c.s.mu.Unlock()
	to <- prometheus.MustNewConstMetric(sensorSeries, prometheus.GaugeValue, float64(series))
	to <- prometheus.MustNewConstMetric(sensorNodes, prometheus.GaugeValue, float64(nodes))
	to <- prometheus.MustNewConstMetric(sensorLeft, prometheus.CounterValue, float64(left))
}

// Set takes the place of what the node's sensors told before.
func (s *Sensors) Set(r Reading) {
	all := gaugesOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(r.Node)
	n := nodeSensors{at: time.Now()}
	for _, g := range all {
		if len(n.list) >= sensorsOfNode || s.names[g.name] == 0 && len(s.names) >= sensorNames {
			s.left++
			continue
		}
		n.list = append(n.list, g)
		s.names[g.name]++
	}
	s.nodes[r.Node] = n
}

// Forget forgets a node's reading.
func (s *Sensors) Forget(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(node)
}

// forget is Forget with mu held.
func (s *Sensors) forget(node string) {
	for _, g := range s.nodes[node].list {
		if s.names[g.name]--; s.names[g.name] == 0 {
			delete(s.names, g.name)
		}
	}
	delete(s.nodes, node)
}

const lastPayload = "baremetal_last_payload_timestamp_seconds"

// sensorHelp explains a metric. All that have one name have one text, whichever machine they are of.
func sensorHelp(name string) string {
	switch {
	case name == lastPayload:
		return "When the sensors of the machine were read last."
	case strings.HasPrefix(name, "baremetal_temp_"), strings.HasSuffix(name, "_celsius"):
		return "A temperature that the BMC of the machine tells."
	case name == "baremetal_fan_status", name == "baremetal_power_status", name == "baremetal_drive_status":
		return "Health that the BMC of the machine tells: 0 is OK, 1 is not."
	}
	return "A sensor that the BMC of the machine tells; a discrete one is 0 where none of its states is asserted, else 1."
}

// gaugesOf makes gauges of a reading, each with labels of its own, in the order of types and names. Sensors of IPMI tell
// "Sensor Reading"; those of Redfish have fields in lower case.
func gaugesOf(r Reading) (list []sensorGauge) {
	seen := map[string]bool{}
	add := func(name string, value float64, entity, sensor, id, status string) {
		labels := []string{"node_name", "node_uuid", "instance_uuid", "entity_id", "sensor_id"}
		values := []string{r.Name, r.Node, r.Instance, entity, cmp.Or(sensor, id)}
		if status != "" {
			labels, values = append(labels, "status"), append(values, status)
		}
		g := sensorGauge{name: metricName(name), labels: labels, value: value}
		for _, v := range values {
			g.values = append(g.values, label(v))
		}
		key := g.name + "\x00" + strings.Join(g.values, "\x00")
		if seen[key] { // two sensors of one number: the names tell them apart
			g.values[4] = label(id)
			if key = g.name + "\x00" + strings.Join(g.values, "\x00"); seen[key] {
				return
			}
		}
		seen[key] = true
		list = append(list, g)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Types)) {
		for _, id := range slices.Sorted(maps.Keys(r.Types[kind])) {
			fields := r.Types[kind][id]
			if text, byIPMI := fields["Sensor Reading"].(string); byIPMI {
				if name, value, ok := ipmiGauge(kind, id, text); ok {
					add(name, value, said(fields["Entity ID"]), said(fields["Sensor ID"]), id, said(fields["Status"]))
				}
				continue
			}
			redfishGauge(kind, id, fields, add)
		}
	}
	if len(list) > 0 {
		g := sensorGauge{name: lastPayload, labels: []string{"node_name", "node_uuid", "instance_uuid"}, value: float64(r.At.Unix())}
		for _, v := range []string{r.Name, r.Node, r.Instance} {
			g.values = append(g.values, label(v))
		}
		list = slices.Insert(list, 0, g)
	}
	return list
}

// redfishGauge names a sensor of Redfish as ironic-prometheus-exporter does. A part whose health is not told has no status.
func redfishGauge(kind, id string, f map[string]any, add func(name string, value float64, entity, sensor, id, status string)) {
	bad := 0.0
	health := said(f["health"])
	if health != "OK" {
		bad = 1
	}
	context := said(f["physical_context"])
	switch {
	case kind == "Temperature":
		if value, ok := number(f["reading_celsius"]); ok {
			add("baremetal_temp_"+strings.ToLower(cmp.Or(context, "unknown"))+"_celsius", value, context, said(f["sensor_number"]), id, "")
		}
	case health == "":
	case kind == "Fan":
		add("baremetal_fan_status", bad, context, said(f["identity"]), id, "")
	case kind == "Power":
		add("baremetal_power_status", bad, "PSU", id, id, "")
	case kind == "Drive":
		add("baremetal_drive_status", bad, "HDD", id, id, "")
	}
}

var (
	digits     = regexp.MustCompile(`[0-9]+`)
	fanNumber  = regexp.MustCompile(`fan[0-9]*[a-z]*`)
	brackets   = regexp.MustCompile(`\(.*\)`)
	notOfAName = regexp.MustCompile(`[^a-zA-Z0-9_]`)
)

// ipmiKinds are the types of sensors of IPMI that become gauges, with what surrounds the sensor's own name. All but voltage are
// those of ironic-prometheus-exporter.
var ipmiKinds = map[string]struct{ prefix, suffix string }{
	"management":  {"baremetal_", ""},
	"temperature": {"baremetal_", "_celsius"},
	"system":      {"baremetal_system_", ""},
	"current":     {"baremetal_", ""},
	"version":     {"baremetal_", ""},
	"memory":      {"baremetal_", ""},
	"power":       {"baremetal_power_", ""},
	"watchdog2":   {"baremetal_", ""},
	"fan":         {"baremetal_", ""},
	"voltage":     {"baremetal_", "_volts"},
}

// ipmiGauge names a sensor of IPMI, such as "Inlet Temp (0x5)", and reads its value. A sensor without a reading has none.
func ipmiGauge(kind, id, reading string) (name string, value float64, ok bool) {
	kind = strings.ToLower(kind)
	of, known := ipmiKinds[kind]
	words := strings.Fields(reading)
	if !known || len(words) == 0 || reading == "No Reading" || reading == "Disabled" {
		return "", 0, false
	}
	unit := ""
	if kind == "fan" {
		id = strings.Join(strings.Fields(brackets.ReplaceAllString(fanNumber.ReplaceAllString(strings.ToLower(id), "fan"), "")), "_")
		if len(words) > 1 {
			unit = "_" + strings.ToLower(words[len(words)-1])
		}
	} else {
		parts := strings.Fields(strings.ToLower(digits.ReplaceAllString(id, "")))
		id = strings.Join(parts[:max(0, len(parts)-1)], "_")
	}
	if kind == "memory" && !strings.Contains(id, "mem") {
		id = "memory_" + id
	}
	name = of.prefix + id + of.suffix + unit
	if len(words) == 1 { // states of a discrete sensor, in hexadecimal
		if words[0] == "0h" {
			return name, 0, true
		}
		return name, 1, true
	}
	value, err := strconv.ParseFloat(words[0], 64)
	return name, value, err == nil
}

func metricName(s string) string {
	s = notOfAName.ReplaceAllString(s, "_")
	return s[:min(len(s), sensorText)]
}

// label is a text as a label has it: cut, and valid UTF-8, which Prometheus wants.
func label(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), sensorText)], "")
}

func said(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	case string:
		f, err := strconv.ParseFloat(v, 64)
		return f, err == nil
	}
	return 0, false
}
