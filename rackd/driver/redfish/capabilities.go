package redfish

import "slices"

// Bounds of a search for an adapter that boots by iSCSI: an inspection of a machine with many adapters does not take minutes for it.
const (
	mostAdapters  = 16
	mostFunctions = 32
)

// Capabilities are the capabilities of a machine that its BMC tells in the standard's words: iscsi_boot, of one whose firmware takes an
// iSCSI target (SetISCSIBoot). One that cannot be read is left out.
func Capabilities(t *Turn) map[string]string {
	if can, err := bootsByISCSI(t); err != nil || !can {
		return nil
	}
	return map[string]string{"iscsi_boot": "true"}
}

// bootsByISCSI reports whether a function of the machine's first network adapters takes an iSCSI target.
func bootsByISCSI(t *Turn) (bool, error) {
	var p parts
	if err := t.Read(t.System.Path, &p); err != nil {
		return false, err
	}
	v := &survey{c: t.c}
	chassis, err := v.chassisOf(p)
	if err != nil {
		return false, err
	}
	adaptersLeft, functionsLeft := mostAdapters, mostFunctions
	for _, at := range chassis[:min(len(chassis), mostChassis)] {
		var of struct{ NetworkAdapters ref }
		if err := absent(t.Read(at.Path, &of)); err != nil {
			return false, err
		}
		adapters, err := listed(t.c, of.NetworkAdapters.Path)
		if err != nil {
			return false, err
		}
		for _, a := range adapters[:min(len(adapters), adaptersLeft)] {
			adaptersLeft--
			var adapter struct{ NetworkDeviceFunctions ref }
			if err := absent(t.Read(a.Path, &adapter)); err != nil {
				return false, err
			}
			functions, err := listed(t.c, adapter.NetworkDeviceFunctions.Path)
			if err != nil {
				return false, err
			}
			for _, f := range functions[:min(len(functions), functionsLeft)] {
				functionsLeft--
				var function struct {
					ISCSIBoot              *iscsiBoot `json:"iSCSIBoot"`
					NetDevFuncCapabilities []string
				}
				if err := absent(t.Read(f.Path, &function)); err != nil {
					return false, err
				}
				if function.ISCSIBoot != nil && (function.NetDevFuncCapabilities == nil || slices.Contains(function.NetDevFuncCapabilities, "iSCSI")) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}
