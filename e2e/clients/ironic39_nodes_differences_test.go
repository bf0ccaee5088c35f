package clients

import (
	"regexp"
	"slices"
)

// deliberateNodes39 are the differences from Ironic 39 in nodes and what is below them.
var deliberateNodes39 = slices.Concat([]difference{
	{regexp.MustCompile(`^n-versions .*/extra/`), 400, 200, "names of extra fields may have dots and escapes, as 1.98 is said to allow"},
	{regexp.MustCompile(`"path":"/parent_node"`), 200, 400, "no node is its own parent, and the owner it is given counts"},
	{regexp.MustCompile(`^n-methods .*"name":"(firmware|children|vmedia)"`), 0, 400, "a node named as a part of a node could not be asked for"},
	{regexp.MustCompile(`/vmedia$`), 400, 200, "fake hardware can tell its virtual media"},
	{regexp.MustCompile(`/nodes/detail\?.*(include_children|parent_node)|include_children=(foo|&|$| )`), 0, 0, "children are asked for in the detailed list as in the other, from the same version"},
	{regexp.MustCompile(`^n-(bios|firmware|runbook) .*"(manage|clean|inspect|provide)"`), 0, 0, "fake hardware looks at what its steps are given, has RAID, and needs no ramdisk for its BIOS"},
	{regexp.MustCompile(`/continue_inspection/x|/nodes/vendor_passthru/x`), 0, 0, "what nobody takes has no arguments to miss"},
	{regexp.MustCompile(`^n-inspection .*/inventory`), 404, 200, "fake hardware has an inventory"},
	{regexp.MustCompile(`^root 1\.115 (POST|PUT|DELETE|PATCH) /$`), 200, 405, "the root document is read, and nothing else is done to it"},
	{regexp.MustCompile(`^versions \+1\.31 `), 200, 406, "a version has no sign"},
	{regexp.MustCompile(`^create-forms 1\.115 POST /v1/nodes with \{\} `), 400, 201, "a body needs no type"},
	{regexp.MustCompile(`^power 1\.115 \S+ /v1/nodes/(nonesuch|3fa85f64)`), 0, 0, "what a request says is looked at before its node, and a volume's node before the volumes"},
	{regexp.MustCompile(`"rescue","runbook"`), 404, 400, "a rescue without a password is refused before its runbook is looked for"},
	{regexp.MustCompile(`^n-service-life .*"/network_interface"`), 200, 409, "the network interface was flat, and not noop"},
	{regexp.MustCompile(`"image_download_source":"swift"`), 204, 400, "a BMC loads its image from the URL it is given"},
	{regexp.MustCompile(`"step":"nonesuch"`), 202, 400, "a step that the node does not have is refused at the request, before anything is sent to the machine"},
	{regexp.MustCompile(`^n-service-life .*"target":"abort"`), 0, 400, "a service that was refused leaves nothing to abort"},
	{regexp.MustCompile(`^n-poweroff .*"manage"`), 400, 202, "steps for the power of a node are not skipped without saying so"},
}, deliberateNodes)
