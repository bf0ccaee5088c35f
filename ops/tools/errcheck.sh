#!/bin/sh
# Compares the errors that the product leaves unread with the list errcheck.txt, which only shrinks. Closing what was read, and printing
# for people, may fail without a word.
set -eu
cd "$(dirname "$0")/../.."
found=$(mktemp)
trap 'rm -f "$found"' EXIT
go tool -modfile=ops/tools/go.mod errcheck -ignoretests ./... >"$found.raw" || [ $? -eq 1 ]
sed -E -n 's/^([^:]+):[0-9]+:[0-9]+:\s+(.*)$/\1: \2/p' "$found.raw" | grep -vE '\.Close\(|fmt\.F?[Pp]rint' | LC_ALL=C sort -u >"$found" || true
rm -f "$found.raw"
if [ "${1:-}" = update ]; then
	cp "$found" ops/tools/errcheck.txt
	exit
fi
if ! diff -u ops/tools/errcheck.txt "$found" >&2; then
	echo "errors that nothing reads (+): handle them, or say at the line why not and run ops/tools/errcheck.sh update. Lines that are gone (-): run it too." >&2
	exit 1
fi
