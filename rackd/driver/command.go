package driver

import (
	"fmt"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/work"
)

// CommandFailure is why a command of the agent failed, in the agent's words; nil
// for a command that runs or has succeeded.
func CommandFailure(c agentapi.Command) error {
	if c.Status == agentapi.CommandRunning || c.Status == agentapi.CommandSucceeded {
		return nil
	}
	if c.Error == nil {
		return fmt.Errorf("agent command %s ended as %s and gives no reason", c.Name, c.Status)
	}
	text := c.Error.Details
	if text == "" {
		text = c.Error.Message
	}
	return &FailedError{Command: c.Name, Type: c.Error.Type, Text: work.Text(text)}
}

// FailedError is an agent's word that a command has failed. Type is the agent's name for the fault.
type FailedError struct{ Command, Type, Text string }

func (e *FailedError) Error() string {
	return fmt.Sprintf("agent command %s failed: %s", e.Command, e.Text)
}

// WrongChecksum is the Type of an image that arrived with another checksum.
const WrongChecksum = "ImageChecksumError"
