package provision

// Aborted is the last error of a node that an abort has brought into state. Clients look
// for the word in it: an operation that somebody has ended has not failed.
func Aborted(state State) string {
	switch state {
	case InspectFail:
		return "Inspection was aborted by request."
	case CleanFail:
		return "By request, the clean operation was aborted."
	case DeployFail:
		return "By request, the deployment was aborted."
	case RescueFail:
		return "By request, the rescue operation was aborted."
	}
	return "By request, the service operation was aborted."
}
