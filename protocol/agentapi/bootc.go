package agentapi

// StepBootc is the step that has a container install itself on the root disk, in our agent as in ironic-python-agent.
const StepBootc = "execute_bootc_install"

// BootcArgs are the step's arguments. Keys and encryption are in the node's instance_info.
type BootcArgs struct {
	// Source is oci://HOST[:PORT]/NAME, with a tag or a digest.
	Source string `json:"image_source"`
	// ConfigDrive is base64 of a gzipped image; empty: there is none.
	ConfigDrive string `json:"configdrive"`
	// PullSecret is base64 of what podman keeps of an account, which is base64 of user:password; empty: the registry asks for none.
	PullSecret string `json:"oci_pull_secret"`
}
