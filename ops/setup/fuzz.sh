#!/bin/sh
# Runs every fuzz test for the time given, one after the other. Minimising is bounded: where a database works beside, what
# an input covers differs from run to run, and all the time would go by with it. A test whose time ends while an input runs
# may fail with no more than that it has ended (a bug of go test): it has another go, and fails the second time.
set -eu
time=${1:-5s}
grep -rl --include='*_test.go' '^func Fuzz' central rackd agent protocol ops e2e | while read -r file; do
	dir=$(dirname "$file")
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$file" | while read -r name; do
		echo "$dir $name"
		fuzz() { go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 10x "./$dir" >/tmp/fuzz.$$ 2>&1; }
		fuzz || { grep -q '^ *context deadline exceeded$' /tmp/fuzz.$$ && ! grep -q 'Failing input' /tmp/fuzz.$$ && fuzz; } || { cat /tmp/fuzz.$$; exit 1; }
	done
done
rm -f /tmp/fuzz.$$
