#!/bin/sh
# Prints what go test is to be told to run the tests that the race detector leaves out: -run with their names, and their folders.
# They are in files whose first line is a //go:build with !race.
set -eu
files=$(grep -rl --include='*_test.go' '^//go:build.*!race' central rackd agent protocol ops e2e dashboards)
names=$(grep -hoE '^func (Test|Fuzz|Example)[A-Za-z0-9_]*' $files | sed 's/^func //' | grep -vx TestMain | sort -u | paste -sd '|')
folders=$(for f in $files; do echo "./$(dirname "$f")"; done | sort -u | paste -sd ' ')
echo "-run=^($names)\$ $folders"
