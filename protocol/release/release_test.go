package release

import (
	"runtime/debug"
	"testing"
)

func TestText(t *testing.T) {
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	for want, settings := range map[string][]debug.BuildSetting{
		Version + " (go1.99)":                                     nil,
		Version + " (commit 0123456789ab, go1.99)":                {commit, {Key: "vcs.modified", Value: "false"}},
		Version + " (commit 0123456789ab, changed since, go1.99)": {commit, {Key: "vcs.modified", Value: "true"}},
	} {
		if got := text(&debug.BuildInfo{GoVersion: "go1.99", Settings: settings}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
