#!/usr/bin/env bash
# Measures capacity-card: the cost of a session compared with Volcano's own capacity on the same
# snapshot, how it grows, the cost of a tree of queues, and the cost of one check. Fails when a limit is exceeded. Writes the raw
# figures to dist/bench-plugin.txt.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p dist
printf 'bench: %s, %s processors, load %s\n' "$(go version | cut -d' ' -f3)" "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)"
printf 'bench: median (10th to 90th percentile) of 21 rounds; about nine minutes\n'

set +e
go test ./internal/scheduler/capacitycard -run '^$' -bench '^Benchmark(Gates|Session|Growth|Allocate|Votes|Tree|TreeAllocate)$' -benchtime 21x -timeout 40m \
	2>dist/bench-plugin.log | tee dist/bench-plugin.txt |
	awk '
		# The benchmark writes pairs of a value and its unit; the scheduler logs in between.
		/^Benchmark/ { name = $1; sub(/^Benchmark/, "", name); sub(/-[0-9]+$/, "", name) }
		/ns\/op|-ms|ns\/pod|ns-p10/ {
			delete v
			for (i = 1; i < NF; i++) if ($i ~ /^[0-9.e+-]+$/) v[$(i + 1)] = $i
			if ("time-ratio" in v && !("allocs-ratio" in v))
				printf "%-58s capacity-card %.2f ms (%.2f to %.2f) a pod, capacity %.2f ms (%.2f to %.2f): %.2f of the processor time (%.2f to %.2f)\n", name,
					v["capacity-card-ms"], v["capacity-card-ms-p10"], v["capacity-card-ms-p90"], v["capacity-ms"], v["capacity-ms-p10"], v["capacity-ms-p90"], v["time-ratio"], v["time-ratio-p10"], v["time-ratio-p90"]
			else if ("time-ratio" in v)
				printf "%-58s capacity-card %.1f ms (%.1f to %.1f), capacity %.1f ms (%.1f to %.1f): %.2f of the time; %d and %d allocations: %.3f\n", name,
					v["capacity-card-ms"], v["capacity-card-ms-p10"], v["capacity-card-ms-p90"], v["capacity-ms"], v["capacity-ms-p10"], v["capacity-ms-p90"],
					v["time-ratio"], v["capacity-card-allocs"], v["capacity-allocs"], v["allocs-ratio"]
			else if ("tree-ratio" in v)
				printf "%-58s tree %.1f ms (%.1f to %.1f), flat %.1f ms (%.1f to %.1f): %.2f of the time; %d and %d allocations\n", name,
					v["tree-ms"], v["tree-ms-p10"], v["tree-ms-p90"], v["flat-ms"], v["flat-ms-p10"], v["flat-ms-p90"], v["tree-ratio"], v["tree-allocs"], v["flat-allocs"]
			else if ("check-ratio" in v)
				printf "%-58s %.1f ms for 10,000 refused jobs; a vote costs %.3f of a check of the quota\n", name, v["votes-ms"], v["check-ratio"]
			else if ("ns/pod" in v)
				printf "%-58s %.1f ms, %d ns a pod, %d allocations\n", name, v["ms"], v["ns/pod"], v["session-allocs"]
			else if ("fits-ratio" in v)
				printf "%-58s %d ns (%d to %d), %.2f checks of the quota, %d allocations\n", name, v["ns/op"], v["ns-p10"], v["ns-p90"], v["fits-ratio"], v["allocs/op"]
		}
		/^--- FAIL|_test.go:[0-9]+:|^panic/ { print }
		{ fflush() }'
status=${PIPESTATUS[0]}
set -e
if [ "$status" -ne 0 ]; then
	printf 'bench: FAILED, see dist/bench-plugin.txt and dist/bench-plugin.log\n'
	exit 1
fi
printf 'bench: passed, every limit is kept\n'
