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
	case slices.Contains([]string{"baremetal_temperature_status", "baremetal_fan_status", "baremetal_power_status", "baremetal_drive_status"}, name):
		return "Health that the BMC of the machine tells: 0 is OK, 1 a warning, 2 critical. By IPMI 1 is any state that is asserted."
	}
	return "A sensor that the BMC of the machine tells; a discrete one is 0 where none of its states is asserted, else 1."
}

// gaugesOf makes gauges of a reading, each with labels of its own, in the order of types and names. Sensors of IPMI tell
// "Sensor Reading"; those of Redfish have fields in lower case.
func gaugesOf(r Reading) (list []sensorGauge) {
	seen := map[string]bool{}
	add := func(name string, value float64, more ...string) {
		g := sensorGauge{name: metricName(name), value: value}
		for pair := range slices.Chunk(append([]string{"node_name", r.Name, "node_uuid", r.Node, "instance_uuid", r.Instance}, more...), 2) {
			g.labels, g.values = append(g.labels, pair[0]), append(g.values, label(pair[1]))
		}
		if key := g.name + "\x00" + strings.Join(g.values, "\x00"); !seen[key] { // texts that were cut may be the same
			seen[key] = true
			list = append(list, g)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Types)) {
		for _, id := range slices.Sorted(maps.Keys(r.Types[kind])) {
			fields := r.Types[kind][id]
			if text, byIPMI := fields["Sensor Reading"].(string); byIPMI {
				if name, value, ok := ipmiGauge(kind, id, text); ok {
					labels := []string{"entity_id", said(fields["Entity ID"]), "sensor_id", cmp.Or(said(fields["Sensor ID"]), id)}
					if status := said(fields["Status"]); status != "" {
						labels = append(labels, "status", status)
					}
					add(name, value, labels...)
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

// healths are the values of a part's health, as ironic-prometheus-exporter has them.
var healths = map[string]float64{"OK": 0, "Warning": 1, "Critical": 2}

// statuses are the metrics of a part's health, with the entity that their series are of: of those without one, the physical context.
var statuses = map[string]struct{ name, entity string }{
	"Temperature": {"baremetal_temperature_status", ""},
	"Fan":         {"baremetal_fan_status", ""},
	"Power":       {"baremetal_power_status", "PSU"},
	"Drive":       {"baremetal_drive_status", "HDD"},
}

// ofParts are the fields of Redfish's sensors that are labels. Readings are none: each one would begin a series.
var ofParts = []string{"capacity_bytes", "health", "identity", "max_reading_range", "max_reading_range_temp", "min_reading_range",
	"min_reading_range_temp", "model", "name", "physical_context", "power_capacity_watts", "sensor_number", "serial_number", "state"}

// redfishGauge names a sensor of Redfish as ironic-prometheus-exporter does. A part whose health is not told, or is not one of
// the schema's words, has no status. One that tells another state than Enabled has no gauge.
func redfishGauge(kind, id string, f map[string]any, add func(name string, value float64, more ...string)) {
	if state := said(f["state"]); state != "" && !strings.EqualFold(state, "Enabled") {
		return
	}
	context := said(f["physical_context"])
	status, known := statuses[kind]
	if !known {
		return
	}
	labels := []string{"entity_id", cmp.Or(status.entity, context), "sensor_id", id}
	for _, field := range ofParts {
		if text := said(f[field]); text != "" {
			labels = append(labels, field, text)
		}
	}
	if kind == "Temperature" {
		value, read := number(f["reading_celsius"])
		if !read {
			return
		}
		add("baremetal_temp_"+strings.ToLower(cmp.Or(context, "unknown"))+"_celsius", value, labels...)
	}
	if value, told := healths[said(f["health"])]; told {
		add(status.name, value, labels...)
	}
}

var (
	digits     = regexp.MustCompile(`[0-9]+`)
	fanNumber  = regexp.MustCompile(`fan[0-9]*[a-z]*`)
	brackets   = regexp.MustCompile(`\(.*\)`)
	ofVolts    = regexp.MustCompile(`[0-9+]v|[0-9+].[0-9*]v`)
	notOfAName = regexp.MustCompile(`[^a-zA-Z0-9]+`)
)

// ipmiKinds are the types of sensors of IPMI that become gauges, with what surrounds the sensor's own name. They are
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
	"voltage":     {"baremetal_voltage_", ""},
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
	if len(words) > 1 && (kind == "fan" || kind == "voltage") {
		unit = "_" + strings.ToLower(words[len(words)-1])
	}
	id = strings.ToLower(id)
	if kind == "fan" {
		id = strings.Join(strings.Fields(brackets.ReplaceAllString(fanNumber.ReplaceAllString(id, "fan"), "")), "_")
	} else {
		if kind == "voltage" { // "3.3V A PG" is "a pg": how many volts it ought to have is no part of the name
			id = ofVolts.ReplaceAllString(id, "")
		}
		parts := strings.Fields(digits.ReplaceAllString(id, ""))
		id = strings.ReplaceAll(strings.Join(parts[:max(0, len(parts)-1)], "_"), "-", "_")
	}
	if kind == "voltage" && strings.Contains(of.prefix, id) {
		id = "" // the exporter leaves out what the prefix says, and also a name of one letter in it
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

// metricName is a text as the name of a metric. What has no place in one is an underscore, and there are no two in a row.
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
