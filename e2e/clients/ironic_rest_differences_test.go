package clients

import "regexp"

// everywhere are the differences from every Ironic in what is not about nodes alone.
var everywhere = []difference{
	{regexp.MustCompile(`a~1b`), 400, 200, "names of extra fields may have escapes, as since 1.98"},
	{regexp.MustCompile(` GET /v1/(nodes/n\d|portgroups/pg\d)/(ports|portgroups|volume/(connectors|targets))`), 404, 0, "what belongs to a node or portgroup is listed by its name, too"},
	{regexp.MustCompile(`(PATCH|POST|DELETE|PUT|GET) \S+/(foo|detail|x|a%2Fb|a8|CUSTOM_A/x|CUSTOM_X|nodes/\S+|portgroups/pg0\S*|ports/\S+|connectors/\S+|targets/\S+)/?( .*)?$`), 0, 405, "no method, and arguments that nobody reads, are refused without reading them"},
	{regexp.MustCompile(`(PATCH|POST|DELETE|GET) /v1/(nodes|chassis|portgroups)/\S+/(ports|portgroups|connectors|targets|nodes)(/\S*)?( .*)?$`), 0, 400, "what is changed at home only is refused elsewhere, without reading what is asked"},
	{regexp.MustCompile(`sharded=x?$`), 400, 406, "a version is looked at before what an argument says"},
}

// deliberateRest are those from a running Ironic 21.4.
var deliberateRest = append([]difference{
	{regexp.MustCompile(`sort_key=(owner|name|description|category|physical_network)|fields=(owner|description)`), 0, 406, "a field that is newer than the request is not sorted by or shown"},
	{regexp.MustCompile(`allocations\S*[?&]fields=owner`), 406, 400, "the fields to choose from are those of the version, as in newer releases"},
	{regexp.MustCompile(`allocations/\S* \[\{"op":"add","path":"/extra/l"`), 200, 400, "what changes allocations has no lists, as in newer releases"},
	{regexp.MustCompile(`fields=[^&]*&fields=`), 400, 0, "a list may be given piece by piece, as since Ironic 39"},
	{regexp.MustCompile(`^portgroups 1\.(23|24|25) `), 200, 200, "a portgroup's mode and properties are hidden from versions before them, as in newer releases"},
	{regexp.MustCompile(`^portgroups (1\.(23|24|25)|-) `), 201, 201, "a portgroup's mode and properties are hidden from versions before them, as in newer releases"},
	{regexp.MustCompile(`^(allocations|portgroups|small|ports) `), 404, 404, "what is too old is told so by the resource, or by the framework, as in newer releases"},
	{regexp.MustCompile(`^allocations `), 405, 405, "what is too old is told so by the resource, or by the framework, as in newer releases"},
	{regexp.MustCompile(`/v1/events`), 404, 405, "events are only posted, in every version, as in newer releases"},
	{regexp.MustCompile(`GET /v1/portgroups\S*address=`), 200, 400, "one filter of portgroups excludes others, as in newer releases"},
	{regexp.MustCompile(`PATCH /v1/chassis/`), 404, 400, "what cannot name a chassis is refused, as in newer releases"},
	{regexp.MustCompile(`^portgroups 1\.1 POST`), 400, 404, "a version is looked at before a body, as in newer releases"},
	{regexp.MustCompile(`shard=`), 400, 406, "newer versions know it"},
	{regexp.MustCompile(`fields=description`), 400, 406, "newer versions know it"},
	{regexp.MustCompile(`^volume 1\.82 DELETE /v1/volume/targets/00000622`), 400, 0, "a node that was never deployed may be on while its volumes go, as in newer releases"},
	{regexp.MustCompile(`GET /v1/deploy_templates/detail\?|GET \S+/a%2Fb$`), 0, 0, "what is asked for is looked at first"},
	{regexp.MustCompile(`volume\S* .*x{33}`), 0, 400, "texts are bounded, as in the databases that Ironic is run with"},
	{regexp.MustCompile(`(GET|PATCH) /v1/ports/`), 400, 404, "what could be a port's name is looked for in every version, as in newer releases"},
	{regexp.MustCompile(`"path":"/portgroup_uuid","value":"00000902`), 200, 400, "a port is in portgroups of its own node only"},
	{regexp.MustCompile(`"portgroup_uuid":"00000901`), 201, 409, "a portgroup keeps to the physical network of its first port, as in newer releases"},
	{regexp.MustCompile(`"local_link_connection":\{\},"is_smartnic":true`), 400, 201, "a smart NIC may be connected later"},
	{regexp.MustCompile(`00000901111142228333444444444444`), 400, 0, "a UUID without hyphens is one"},
	{regexp.MustCompile(`PATCH /v1/portgroups/\S+ \[\{"op":"replace","path":"/node_uuid","value":"n2"`), 400, 200, "a node may be named by its name, as since Ironic 39"},
}, everywhere...)

// deliberateRest39 are those from a running Ironic 39.
var deliberateRest39 = append([]difference{
	{regexp.MustCompile(`^lategroups 1\.23 GET \S+fields=physical_network`), 200, 200, "a field is shown to whoever may ask for it"},
	{regexp.MustCompile(`/v1/events/x`), 0, 0, "below events there is nothing"},
	{regexp.MustCompile(`/traits/CUSTOM_A/x$`), 405, 404, "below a trait there is nothing"},
	{regexp.MustCompile(`runbooks\?project=`), 400, 200, "project is a project's ID"},
	{regexp.MustCompile(`marker=CUSTOM_A`), 404, 200, "a marker may be a name"},
	{regexp.MustCompile(`(PATCH|DELETE) /v1/portgroups( |$)`), 404, 400, "a path that lacks its last part says which"},
}, everywhere...)

// deliberateRules39 are those in inspection rules.
var deliberateRules39 = []difference{
	{regexp.MustCompile(`00000910\S* \[\{"op":"remove"`), 400, 200, "a rule without a phase is of the main one"},
	{regexp.MustCompile(`\?marker=x`), 200, 404, "no rule has a UUID that is none"},
	{regexp.MustCompile(`"path":"/(uuid|created_at|id)"`), 0, 400, "what a rule is known by does not change"},
	{regexp.MustCompile(`"op":"remove","path":"/sensitive"`), 200, 400, "a sensitive rule goes on being one, whatever the operation"},
	{regexp.MustCompile(`/foo( .*)?$`), 400, 405, "no method, and arguments that nobody reads, are refused without reading them"},
}
