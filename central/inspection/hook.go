package inspection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/work"
)

// hook is a part of the processing that is not a rule. Either function may be nil.
type hook struct {
	look func(p *Processor, s *Subject) error // before any hook does something
	do   func(p *Processor, s *Subject) error // before the main rules
	// after names hooks that must come before this one.
	after []string
}

// hookTable is every hook.
var hookTable = map[string]hook{
	"ramdisk-error":         {look: ramdiskError},
	"validate-interfaces":   {look: validateInterfaces},
	"ports":                 {do: ports, after: []string{"validate-interfaces"}},
	"architecture":          {do: architecture},
	"cpus":                  {do: cpus},
	"memory":                {do: memory},
	"root-device":           {do: rootDevice},
	"boot-mode":             {do: bootMode},
	"cpu-capabilities":      {do: cpuCapabilities},
	"physical-network":      {do: physicalNetwork, after: []string{"validate-interfaces"}},
	"local-link-connection": {do: localLink, after: []string{"validate-interfaces"}},
	"parse-lldp":            {do: parseLLDP},
	"pci-devices":           {do: pciDevices},
	"extra-hardware":        {do: extraHardware},
	"raid-device":           {do: raidDevice},
	"accelerators":          {do: accelerators},
}

// DefaultHooks are those that run where no others are chosen.
var DefaultHooks = []string{"ramdisk-error", "validate-interfaces", "ports", "architecture"}

// Settings say how inspections are processed.
type Settings struct {
	// Hooks in the order in which they run; nil: DefaultHooks.
	Hooks []string
	// AddPorts: "pxe" (the interface that the ramdisk booted from, default), "active"
	// (those with an address), "all" or "disabled".
	AddPorts string
	// KeepPorts: "all" (default), "present" (whose interface is there) or "added" (those
	// that AddPorts would add); others are removed.
	KeepPorts string
	// PhysicalNetworks maps networks in CIDR notation to names of physical networks.
	PhysicalNetworks map[string]string
	// PCIAliases names PCI devices, "vendor:product" → name, for the capabilities that count them.
	PCIAliases map[string]string
	// ExtraHardwareStrict refuses extra hardware data of which a single fact does not have four
	// parts, and removes what is refused.
	ExtraHardwareStrict bool
}

// Processor processes inspections by its settings. It is safe for concurrent use.
type Processor struct{ set Settings }

// New returns a processor, or says what is wrong with the settings.
func New(set Settings) (*Processor, error) {
	if set.Hooks == nil {
		set.Hooks = DefaultHooks
	}
	for i, name := range set.Hooks {
		h, known := hookTable[name]
		if !known {
			return nil, fmt.Errorf("unknown inspection hook %q; known are %s", name, strings.Join(hookNames(), ", "))
		}
		for _, before := range h.after {
			if !slices.Contains(set.Hooks[:i], before) {
				return nil, fmt.Errorf("inspection hook %s needs hook %s before it in the list", name, before)
			}
		}
	}
	for _, choice := range []struct {
		name  string
		value *string
		words []string
	}{{"add ports", &set.AddPorts, []string{"pxe", "active", "all", "disabled"}}, {"keep ports", &set.KeepPorts, []string{"all", "present", "added"}}} {
		if *choice.value == "" {
			*choice.value = choice.words[0]
		}
		if !slices.Contains(choice.words, *choice.value) {
			return nil, fmt.Errorf("inspection: %s %q is not one of %s", choice.name, *choice.value, strings.Join(choice.words, ", "))
		}
	}
	return &Processor{set}, nil
}

// Default returns the processor of the default settings.
func Default() *Processor {
	p, err := New(Settings{})
	if err != nil {
		panic(err) // the defaults are right
	}
	return p
}

func hookNames() []string {
	var names []string
	for name := range hookTable {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// hooks lets all hooks look at the data, and then do what they do.
func (p *Processor) hooks(s *Subject) error {
	if s.Source == work.MadeUp { // Ironic's fake inspection changes no property; rules may
		properties := s.Node.Properties
		defer func() { s.Node.Properties = properties }()
	}
	if err := p.each(s, func(h hook) func(*Processor, *Subject) error { return h.look }); err != nil {
		return err
	}
	if s.outOfBand() {
		if err := toldByBMC(s); err != nil {
			return err
		}
	}
	return p.each(s, func(h hook) func(*Processor, *Subject) error { return h.do })
}

// each runs the part of each hook, in their order, that has one.
func (p *Processor) each(s *Subject, part func(hook) func(*Processor, *Subject) error) error {
	for _, name := range p.set.Hooks {
		run := part(hookTable[name])
		if run == nil {
			continue
		}
		if err := run(p, s); err != nil {
			return fmt.Errorf("hook %s: %w", name, err)
		}
	}
	return nil
}
