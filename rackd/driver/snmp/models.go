package snmp

import (
	"strconv"
	"strings"
)

// enterprises is where the objects of vendors begin.
const enterprises = "1.3.6.1.4.1."

// sysObjectID says what a device is (RFC 3418).
const sysObjectID = "1.3.6.1.2.1.1.2.0"

// auto is the type that stands for the one that sysObjectID leads to.
const auto = "auto"

// reading is what the state of an outlet means.
type reading int

const (
	unknown  reading = iota
	on               // power on
	off              // power off
	goingOn          // still off
	goingOff         // still on
	between          // in a reboot of its own, or between two states
)

type states map[int]reading

// order is an object that is written, and the value that is written there.
type order struct {
	object string
	value  int
}

// model is what is known of a type of PDU. Objects are below enterprises; {n} is the number of the outlet.
type model struct {
	name string
	// state is the object that is read.
	state   string
	on, off order
	// states are the values that can be read. Other values are errors.
	states states
	// identities are what sysObjectID begins with, below enterprises. auto does not lead to a model without.
	identities []string
}

// models are the types of PDUs, under Ironic's names. The objects are those of the vendors' MIBs. Of two lines with one
// name, a PDU is of the first whose object is there.
var models = []model{
	{"apc", "318.1.1.4.4.2.1.3.{n}", order{"318.1.1.4.4.2.1.3.{n}", 1}, order{"318.1.1.4.4.2.1.3.{n}", 2}, states{1: on, 2: off, 3: between, 5: goingOn, 6: goingOff, 7: between}, nil},
	{"apc_masterswitch", "318.1.1.4.4.2.1.3.{n}", order{"318.1.1.4.4.2.1.3.{n}", 1}, order{"318.1.1.4.4.2.1.3.{n}", 2}, states{1: on, 2: off, 3: between, 5: goingOn, 6: goingOff, 7: between}, []string{"318.1.1.4"}},
	{"apc_masterswitchplus", "318.1.1.6.5.1.1.5.{n}", order{"318.1.1.6.5.1.1.5.{n}", 1}, order{"318.1.1.6.5.1.1.5.{n}", 3}, states{1: on, 3: off}, []string{"318.1.1.6"}},
	{"apc_rackpdu", "318.1.1.12.3.3.1.1.4.{n}", order{"318.1.1.12.3.3.1.1.4.{n}", 1}, order{"318.1.1.12.3.3.1.1.4.{n}", 2}, states{1: on, 2: off}, []string{"318.1.1.12", "318.1.3.4.4", "318.1.3.4.5", "318.1.3.4.6"}},
	{"aten", "21317.1.3.2.2.2.2.{n}.0", order{"21317.1.3.2.2.2.2.{n}.0", 2}, order{"21317.1.3.2.2.2.2.{n}.0", 1}, states{1: off, 2: on, 3: between, 4: between}, []string{"21317"}},
	{"baytech_mrp27", "4779.1.3.5.3.1.3.1.{n}", order{"4779.1.3.5.3.1.3.1.{n}", 1}, order{"4779.1.3.5.3.1.3.1.{n}", 0}, states{0: off, 1: on, 2: between}, nil},
	{"cyberpower", "3808.1.1.3.3.3.1.1.4.{n}", order{"3808.1.1.3.3.3.1.1.4.{n}", 1}, order{"3808.1.1.3.3.3.1.1.4.{n}", 2}, states{1: on, 2: off}, []string{"3808"}},
	// EATON-EPDU-MIB counts units before outlets, and has the order to go off at 3. Ironic has neither: the second line is its own.
	{"eatonpower", "534.6.6.7.6.6.1.2.0.{n}", order{"534.6.6.7.6.6.1.4.0.{n}", 0}, order{"534.6.6.7.6.6.1.3.0.{n}", 0}, states{0: off, 1: on, 2: goingOff, 3: goingOn}, []string{"534"}},
	{"eatonpower", "534.6.6.7.6.6.1.2.{n}", order{"534.6.6.7.6.6.1.3.{n}", 0}, order{"534.6.6.7.6.6.1.4.{n}", 0}, states{0: off, 1: on, 2: goingOff, 3: goingOn}, nil},
	{"raritan_pdu2", "13742.6.4.1.2.1.3.1.{n}", order{"13742.6.4.1.2.1.2.1.{n}", 1}, order{"13742.6.4.1.2.1.2.1.{n}", 0}, states{7: on, 8: off}, nil},
	{"servertech_sentry3", "1718.3.2.3.1.5.1.1.{n}", order{"1718.3.2.3.1.11.1.1.{n}", 1}, order{"1718.3.2.3.1.11.1.1.{n}", 2}, states{0: off, 1: on, 2: goingOff, 3: goingOn}, nil},
	{"servertech_sentry4", "1718.4.1.8.5.1.1.1.1.{n}", order{"1718.4.1.8.5.1.2.1.1.{n}", 1}, order{"1718.4.1.8.5.1.2.1.1.{n}", 2}, states{1: on, 2: off, 3: on, 8: goingOn, 9: goingOff, 10: off, 11: on, 12: between, 14: off, 15: on}, nil},
	{"teltronix", "23620.1.2.2.1.4.{n}", order{"23620.1.2.2.1.4.{n}", 2}, order{"23620.1.2.2.1.4.{n}", 1}, states{1: off, 2: on}, []string{"23620"}},
	{"vertivgeist_pdu", "21239.5.2.3.5.1.4.{n}", order{"21239.5.2.3.5.1.6.{n}", 2}, order{"21239.5.2.3.5.1.6.{n}", 4}, states{1: on, 2: off, 3: goingOff, 4: goingOn, 5: between, 6: between}, nil},
}

// at is an object of one outlet as it is asked for.
func at(object string, outlet int) string {
	return enterprises + strings.ReplaceAll(object, "{n}", strconv.Itoa(outlet))
}

// named are the models of a name, empty for none.
func named(name string) (list []model) {
	for _, m := range models {
		if m.name == name {
			list = append(list, m)
		}
	}
	return list
}

// modelNames are what snmp_driver may be.
func modelNames() (names []string) {
	for _, m := range models {
		if len(names) == 0 || names[len(names)-1] != m.name {
			names = append(names, m.name)
		}
	}
	return append(names, auto)
}

// identified is the name of the model whose identity is the longest that a sysObjectID begins with, empty for none.
func identified(objectID string) (name string) {
	objectID = strings.TrimPrefix(objectID, ".") + "."
	longest := 0
	for _, m := range models {
		for _, identity := range m.identities {
			if len(identity) > longest && strings.HasPrefix(objectID, enterprises+identity+".") {
				name, longest = m.name, len(identity)
			}
		}
	}
	return name
}
