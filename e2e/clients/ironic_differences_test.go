package clients

import (
	"regexp"
	"slices"
)

// difference is one from a running Ironic that is meant, with its reason: scenario and
// request, and the statuses (0: any) of Ironic and of ours.
type difference struct {
	asked        *regexp.Regexp
	ironic, ours int
	reason       string
}

// deliberateNodes are the differences about nodes from every Ironic that was asked.
var deliberateNodes = []difference{
	{regexp.MustCompile(`^root - (POST|PUT|DELETE|PATCH) |^root 1\.82 (POST|PUT|DELETE|PATCH) /$`), 0, 405, "the root document is read, whatever Ironic lets be done to it"},
	{regexp.MustCompile(`/inject_nmi|boot_device \{|indicators/led|/inventory$`), 0, 0, "fake hardware can do more than Ironic's"},
	{regexp.MustCompile(`^(ramdisk|drivers|management|power|traits|methods|show) -? ?(1\.(1|11|21|36) )?`), 400, 404, "what a version does not have is not there, whatever is asked of it"},
	{regexp.MustCompile(`^management - PUT \S+/states/raid`), 400, 406, "a version is looked at before a body"},
	{regexp.MustCompile(`^(list|drivers|power) `), 400, 406, "a version is looked at before what an argument says"},
	{regexp.MustCompile(`node_ident=|driver_name=|\?foo=`), 0, 0, "arguments that name what the path should are unknown, as are others"},
	{regexp.MustCompile(`/history\?limit=1$`), 200, 200, "a node's history tells of changed fields, too"},
	{regexp.MustCompile(`conductor=HOST`), 200, 200, "a page that is short because its nodes are of other conductors has a next one"},
	{regexp.MustCompile(`"name":"(ports|portgroups|vifs|volume|traits|bios|history|inventory|allocation|firmware)"`), 0, 400, "a node by that name could not be asked for"},
	{regexp.MustCompile(`a\.b|a~1b`), 400, 200, "names of extra fields may have dots and escapes, as since 1.98"},
	{regexp.MustCompile(`x-www-form-urlencoded|multipart`), 0, 0, "a body is JSON, whatever its type is said to be"},
	{regexp.MustCompile(`"/network_interface"`), 409, 200, "the network interface is flat already"},
	{regexp.MustCompile(`"value":"redfish"`), 400, 409, "the state of a node is looked at first"},
	{regexp.MustCompile(`/states/power .*"timeout"|/states/console \{"enabled":null|/states/raid \{|/maintenance |/vifs \{`), 0, 0, "values of a wrong kind are refused, and what nobody reads is not looked at"},
	{regexp.MustCompile(`/v1/nodes/validate/`), 404, 200, "a node may be named behind what is asked of it, there too"},
	{regexp.MustCompile(`^create-forms .*raw`), 201, 400, "what is no JSON, and what no database keeps, is refused"},
}

// deliberate are the differences from Ironic 21.4.
var deliberate = slices.Concat([]difference{
	{regexp.MustCompile(`"path":"/driver","value":"fake"`), 400, 200, "names of Ironic's classic drivers are taken, and shown as what they became"},
	{regexp.MustCompile(`POST /v1/nodes .*"console_enabled":true`), 201, 400, "the console of a new node is off, and a console that is said to be on is not switched on afterwards"},
	{regexp.MustCompile(`(parent_node|disable_power_off|instance_name|firmware_interface|include_children)|/(firmware|children|vmedia)$|"(unhold|service)"`), 0, 0, "newer versions know it"},
	{regexp.MustCompile(`(\?|&)fields=($|&| )|fields=links|fields=foo`), 0, 0, "an empty list of fields is none; links are always shown"},
	{regexp.MustCompile(`/v1/nodes/(detail|validate|states|management|maintenance|ports|vendor_passthru)/?( .*)?$`), 0, 0, "a word that stands where a node would is refused as such"},
	{regexp.MustCompile(`fields=[^&]*&fields=`), 400, 0, "a list may be given piece by piece, as since Ironic 39"},
	{regexp.MustCompile(` - GET \S*\.json$| GET /v1\.json$`), 0, 0, "a request without a version has its \".json\" kept, as newer releases of Ironic do"},
	{regexp.MustCompile(`^versions latest GET /v1$`), 200, 200, "the newest version knows more"},
	{regexp.MustCompile(`/validate(\?\S*)?$`), 200, 200, "firmware is an interface to validate, in every version"},
	{regexp.MustCompile(`^methods .*/(supported|validate|vifs/abc|volume/connectors|volume/targets|ports|ports/detail|ports/xyz|portgroups|methods|foo|traits|traits/CUSTOM_A|events|x)$`), 0, 0, "no method, and arguments that nobody reads, are refused without reading them"},
	{regexp.MustCompile(`"(lessee|shard|owner|conductor_group|retired_reason|boot_mode|path":"/(owner|lessee|shard))":?.*x{80}`), 0, 400, "texts are bounded, as in the databases that Ironic is run with"},
	{regexp.MustCompile(`"owner":`), 400, 201, "without authentication whoever asks may give nodes to projects, as in newer releases"},
	{regexp.MustCompile(` with \{"OpenStack-API-Version"`), 0, 0, "OpenStack's common version header is understood too"},
	{regexp.MustCompile(`^versions \S+ GET /$`), 200, 406, "a version that is none is refused at the root, too, as in newer releases"},
	{regexp.MustCompile(`^versions \S+ GET /v1$`), 406, 406, "a version that is none is refused at /v1 in the shape of newer releases"},
	{regexp.MustCompile(`^power 1\.82 \S+ /v1/nodes/(nonesuch|3fa85f64)`), 0, 0, "what a request says is looked at before its node"},
	{regexp.MustCompile(`^accept 1\.82 GET / `), 406, 200, "the root document is for everybody"},
	{regexp.MustCompile(`^methods - GET /v1/shards$`), 404, 404, "before their version shards are refused in the words of newer releases"},
}, deliberateNodes)

// excuse is the reason for which the answers to a request may differ; empty for none.
func excuse(list []difference, asked string, ironic, ours int) string {
	for _, d := range list {
		if d.asked.MatchString(asked) && (d.ironic == 0 || d.ironic == ironic) && (d.ours == 0 || d.ours == ours) {
			return d.reason
		}
	}
	return ""
}
