// Package release says which Ironyard a program is. It imports nothing of the project.
package release

import (
	"runtime/debug"
	"strings"
)

// Version is that of all programs of this source: ALIVE, metrics and heartbeats show it.
const Version = "0.1.0"

// Text is what --version prints after a program's name: the version, then the commit that
// it was built from, where the build knows it, and the Go that built it.
func Text() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Version
	}
	return text(info)
}

func text(info *debug.BuildInfo) string {
	of := map[string]string{}
	for _, s := range info.Settings {
		of[s.Key] = s.Value
	}
	from := []string{info.GoVersion}
	if commit := of["vcs.revision"]; commit != "" {
		commit = commit[:min(12, len(commit))]
		if of["vcs.modified"] == "true" {
			commit += ", changed since"
		}
		from = append([]string{"commit " + commit}, from...)
	}
	return Version + " (" + strings.Join(from, ", ") + ")"
}
