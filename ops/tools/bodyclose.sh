#!/bin/sh
# Fails where an answer's body may stay open. The exceptions close it in another function than the one that asked, dial a
# WebSocket, whose answer has no body to close, or make answers that others close.
# Vet remembers what it found, so the path may be that of another checkout.
set -eu
cd "$(dirname "$0")/../.."
found=$(go vet -vettool="$(go tool -modfile=ops/tools/go.mod -n bodyclose)" ./... 2>&1 | grep -v '^#' |
	grep -v -E '(^|/)(agent/bootserver/bootserver_test|agent/image/fetch|central/api/stream_test|central/api/(console|viewer)_test|central/console/viewer_test|ops/dev/console_test|ops/terminal/doc|rackd/driver/bmc/ask|rackd/driver/redfish/websocket|rackd/netboot/mediaweb/(mediaweb|hostile|drive|parameters)_test)\.go:' || true)
[ -z "$found" ] || { echo "$found" >&2; exit 1; }
