#!/bin/sh
# Fails when there are functions that neither a program nor a test reaches.
set -eu
cd "$(dirname "$0")/../.."
dead=$(go tool -modfile=ops/tools/go.mod deadcode -test ./...)
[ -z "$dead" ] || { echo "$dead" >&2; exit 1; }
