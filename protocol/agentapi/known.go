package agentapi

import "encoding/json"

// maxKnownDisks bounds what is remembered of one machine: a node's document carries it.
const maxKnownDisks = 256

// KnownDisk is a disk as an inspection found it: what tells it from the others, on each boot.
type KnownDisk struct {
	Serial string
	WWN    string // with its extension
	Size   int64  // bytes
}

// Known is what is remembered of d.
func (d Disk) Known() KnownDisk {
	wwn := d.WWNWithExtension
	if wwn == "" {
		wwn = d.WWN
	}
	return KnownDisk{Serial: d.Serial, WWN: wwn, Size: d.Size}
}

// KnownDisks are the disks of an inventory that the machine is expected to have on its next boots.
// Removable ones come and go. A ramdisk that is not the own one says of no disk that it is removable. An empty list says that
// the machine has no disk, nil that the inventory does not tell.
func (i *Inventory) KnownDisks() []KnownDisk {
	if i.Disks == nil {
		return nil
	}
	out, unclear := []KnownDisk{}, false
	for _, d := range i.Disks {
		switch k := d.Known(); {
		case d.Removable:
		case d.Size <= 0:
			unclear = true
		case len(out) < maxKnownDisks:
			out = append(out, k)
		}
	}
	if len(out) == 0 && unclear {
		return nil
	}
	return out
}

// MarshalJSON writes a list of three, because a node's document has many of them.
func (k KnownDisk) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{k.Serial, k.WWN, k.Size})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (k *KnownDisk) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&k.Serial, &k.WWN, &k.Size})
}
