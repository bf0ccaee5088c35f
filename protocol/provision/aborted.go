package provision

// Aborted is the last error of a node that an abort has brought into state, where it stood at a
// step, empty for none. Clients look for the word in it: an operation that somebody has ended
// has not failed.
func Aborted(state State, step string) string {
	var operation string
	switch state {
	case InspectFail:
		return "Inspection was aborted by request."
	case RescueFail:
		return "By request, the rescue operation was aborted."
	case CleanFail:
		operation = "clean"
	case DeployFail:
		operation = "deploy"
	default:
		operation = "service"
	}
	text := "By request, the " + operation + " operation was aborted"
	if step != "" {
		text += ` during or after the completion of step "` + step + `"`
	}
	return text
}
