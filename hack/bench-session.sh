#!/usr/bin/env bash
# Measures the share of the action cardreclaim in sessions at 5,000 nodes and 40,000 pods. The cases are
# a hundred pods that cannot be served, and a gang of 1, 4, 16 and 64 kinds of pods beside jobs of
# 1, 8 and 32 priorities. Other cases are 200 queues that reclaim at 1,000 nodes, and preempt at 500
# nodes with 400 jobs that no eviction helps. Fails when a limit is exceeded. Writes the raw figures to
# dist/bench-session.txt.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p dist
printf 'bench: %s, %s processors, load %s\n' "$(go version | cut -d' ' -f3)" "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)"

set +e
go test ./internal/scheduler/cardreclaim -run '^$' -bench '^Benchmark(Hopeless|HopelessPreemptors|Kinds|Queues)$' -benchtime 1x -timeout 40m \
	2>dist/bench-session.log | tee dist/bench-session.txt |
	awk '
		/^Benchmark/ { name = $1; sub(/^Benchmark/, "", name); sub(/-[0-9]+$/, "", name) }
		/queues-ms/ {
			delete v
			for (i = 1; i < NF; i++) if ($i ~ /^[0-9.e+-]+$/) v[$(i + 1)] = $i
			printf "%-48s 200 queues in %.0f ms, %.1f times as long as one queue\n", name, v["queues-ms"], v["times-one-queue"]
		}
		/action-ms/ {
			delete v
			for (i = 1; i < NF; i++) if ($i ~ /^[0-9.e+-]+$/) v[$(i + 1)] = $i
			if (name ~ /^HopelessPreemptors/)
				printf "%-34s first session %.0f ms of preempt, then %.1f ms of most beside %.0f ms for all the rest\n", name, v["first-ms"], v["action-ms"], v["rest-ms"]
			else if ("first-ms" in v)
				printf "%-24s first search %.0f ms, then %.1f ms of most sessions beside %.0f ms for all the rest; %.2f of all sessions\n", name, v["first-ms"], v["action-ms"], v["rest-ms"], v["share"]
			else
				printf "%-48s %.0f ms, %.1f times as long as one kind and one priority, %d pods are evicted\n", name, v["action-ms"], v["times-one-kind"], v["pods-evicted"]
		}
		/^--- FAIL|_test.go:[0-9]+:|^panic/ { print }
		{ fflush() }'
status=${PIPESTATUS[0]}
set -e
if [ "$status" -ne 0 ]; then
	printf 'bench: FAILED, see dist/bench-session.txt and dist/bench-session.log\n'
	exit 1
fi
printf 'bench: passed, every limit is kept\n'
