package driver

import (
	"context"

	"github.com/ironyard/ironyard/protocol/node"
)

// Sensor is what one sensor tells, by field. The fields are those that Ironic has for the driver.
type Sensor map[string]any

// Sensors is implemented by management interfaces that read the sensors of a machine.
type Sensors interface {
	// Sensors returns what they tell, by type of sensor and by its name: {"Fan": {"Fan 1@1U": {…}}}. Where the BMC shows none
	// it is ErrUnsupported. A part that cannot be read is left out.
	Sensors(ctx context.Context, n *node.Document) (map[string]map[string]Sensor, error)
}
