package agentapi

import "unicode/utf8"

// maxBriefText bounds each text of a command in a heartbeat, in bytes. It keeps a heartbeat below
// 8 KiB: rackd reads no more than 256 KiB of one.
const maxBriefText = 1 << 10

// Brief is what a heartbeat says of c: which command it is, how far it has come and why it failed,
// in short. It never says what c was given or what it returned, which holds config drives and
// secrets. rackd asks for the command itself when it needs the rest.
func (c *Command) Brief() *Command {
	if c == nil {
		return nil
	}
	b := &Command{ID: cut(c.ID), Name: cut(c.Name), Status: c.Status, Progress: c.Progress}
	if c.Error != nil {
		b.Error = &CommandError{Type: cut(c.Error.Type), Code: c.Error.Code, Message: cut(c.Error.Message), Details: cut(c.Error.Details)}
	}
	return b
}

// cut is the beginning of s, of whole characters, with a mark where some of it is missing.
func cut(s string) string {
	if len(s) <= maxBriefText {
		return s
	}
	const mark = "…"
	end := maxBriefText - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
