package seal

import "encoding/binary"

// Kind says what a sealed value is.
type Kind string

// The kinds. They are part of what is sealed and never change.
const (
	DriverInfo   Kind = "driver_info"   // a field of a node's driver_info
	InstanceInfo Kind = "instance_info" // a field of a node's instance_info
	Volume       Kind = "volume_target" // a property of a volume target
	StoredDrive  Kind = "config_drive"  // the config drive that a node keeps for its next rebuild
	SentDrive    Kind = "sent_drive"    // a config drive on its way to a rack
	ListedStep   Kind = "listed_step"   // an argument of a step of a deploy template or a runbook
	StepArgument Kind = "step_argument" // an argument of a step of a piece of work
	VendorData   Kind = "vendor_data"   // the body of a call of a vendor's method
	MediaImage   Kind = "media_image"   // the URL of an image for a virtual drive
	NewSecret    Kind = "new_secret"    // what a piece of work puts in the place of a secret of driver_info
	ConsoleCopy  Kind = "console_copy"  // what a machine wrote to its console
	Vault        Kind = "vault"         // a secret of central's own
)

// Label says what a sealed value is and where it belongs. It is associated data of the sealed value:
// the value opens with the same label only.
type Label struct {
	Kind Kind
	Of   string // the UUID of the node, or of what else it belongs to
	// Field is the path of the field, with slashes.
	Field string
	// Work is the work that it is for; empty for what outlasts works.
	Work string
}

// At returns l for the field at that path.
func (l Label) At(field string) Label {
	l.Field = field
	return l
}

// data is the label as associated data. Each part has its length before it, so that no two labels
// are the same bytes.
func (l Label) data() []byte {
	b := make([]byte, 0, 16+len(l.Kind)+len(l.Of)+len(l.Field)+len(l.Work))
	for _, part := range [...]string{string(l.Kind), l.Of, l.Field, l.Work} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	return b
}

// stored reports whether values of l's kind outlast works, in the database: only these may have been
// sealed before there were labels.
func (l Label) stored() bool {
	switch l.Kind {
	case DriverInfo, InstanceInfo, Volume, StoredDrive, Vault:
		return l.Work == ""
	}
	return false
}

// unlabelled is the associated data that l's value had before there were labels.
func (l Label) unlabelled() []byte {
	if l.Kind == Vault {
		return []byte("vault/" + l.Of)
	}
	return []byte(l.Of)
}

// join is the path of a field below another.
func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "/" + name
}
