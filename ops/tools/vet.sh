#!/bin/sh
# Runs the analyzers of ops/tools/vet: Go's vet, bodyclose and errcheck.
#
# An answer's body may not stay open. The exceptions close it in another function than the one that asked, dial a WebSocket, whose answer
# has no body to close, or make answers that others close.
#
# The errors that the product leaves unread are those of the list errcheck.txt, which only shrinks. Closing what was read, and printing for
# people, may fail without a word.
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
go -C ops/tools build -o "$scratch/vet" ./vet
"$scratch/vet" ./... 2>"$scratch/said" || [ $? -eq 3 ] || { # 3: it has found something, which is judged
	grep -vE 'unchecked error|analysis skipped' "$scratch/said" >&2 || echo "ops/tools/vet was ended, and did not say why: it needs 7 GB of memory" >&2
	exit 1
}
sed "s,^$PWD/,," "$scratch/said" | sort -u >"$scratch/found"

grep -E ': unchecked error$' "$scratch/found" | grep -vE '_test\.go:' | while IFS=: read -r file line _; do
	printf '%s: %s\n' "$file" "$(sed -n "${line}s/^[[:space:]]*//p" "$file")"
done | grep -vE '\.Close\(|fmt\.F?[Pp]rint' | LC_ALL=C sort -u >"$scratch/unread"
if [ "${1:-}" = update ]; then
	cp "$scratch/unread" ops/tools/errcheck.txt
	exit
fi

if grep -vE ': unchecked error$' "$scratch/found" | grep -vE '^(agent/bootserver/bootserver_test|agent/image/fetch|central/api/stream_test|central/api/(console|viewer)_test|central/console/viewer_test|ops/dev/console_test|ops/terminal/doc|rackd/driver/bmc/ask|rackd/driver/redfish/websocket|rackd/netboot/mediaweb/(mediaweb|hostile|drive|parameters)_test)\.go:[0-9:]+ response body must be closed' >&2; then
	exit 1
fi
if ! diff -u ops/tools/errcheck.txt "$scratch/unread" >&2; then
	echo "errors that nothing reads (+): handle them, or say at the line why not and run ops/tools/vet.sh update. Lines that are gone (-): run it too." >&2
	exit 1
fi
