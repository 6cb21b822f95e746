package main

// Joins with cardquota_queue_info. The inner max covers that another replica becomes the leader, topk
// that it knows another tenant of a queue.
const (
	used    = `max by (queue, card) (cardquota_used_cards{card=~"$card"})`
	quota   = `max by (queue, card) (cardquota_quota_cards{card=~"$card"})`
	pending = `max by (queue, card) (cardquota_pending_cards{card=~"$card"})`
	info    = `topk by (queue) (1, max by (queue, tenant, project, service_type) (cardquota_queue_info))`
	ours    = `topk by (queue) (1, max by (queue, tenant, project, service_type) (cardquota_queue_info{tenant=~"$tenant"}))`
	joined  = ` * on (queue) group_left (tenant, project, service_type) `
	isOurs  = ` and on (queue) cardquota_queue_info{tenant=~"$tenant"}`
)

// hadNoSeries are the programs whose counters without series began to count within the hour: they are
// young, or Prometheus scraped them in that hour. After a pause of Prometheus, the whole history of a
// counter would be one increase.
const hadNoSeries = `(max_over_time(up[1h] offset $__rate_interval) == 1 or time() - process_start_time_seconds < 3600)`

// increaseOf is how much a counter grew in the time of a rate. A counter that begins counts whole:
// increase() does not count the value with which a series begins.
func increaseOf(counter string) string {
	return `(` + counter + ` unless last_over_time(` + counter + `[1h] offset $__rate_interval) and on (job, instance) ` + hadNoSeries +
		` or increase(` + counter + `[$__rate_interval]))`
}

var (
	card   = variable{"card", "cardquota_physical_cards"}
	tenant = variable{"tenant", "cardquota_queue_info"}
)

// boards are all boards. hack/alerts checks that each query parses and names metrics that exist.
var boards = []board{fleet, tenants, tide, health}

var fleet = board{
	name: "fleet", title: "Cardquota / Fleet", from: "now-6h", variables: []variable{card},
	description: "The cards of the cluster, and what queues may use and do use.",
	panels: []panel{
		{rows, "Cards", "Each card of the fleet: on all nodes, on ready nodes, on cordoned nodes, held by pods, granted by quotas.", "short", 16, []query{
			{`max by (card) (cardquota_physical_cards{card=~"$card"})`, "Total"},
			{`max by (card) (cardquota_healthy_cards{card=~"$card"})`, "Healthy"},
			{`max by (card) (cardquota_cordoned_cards{card=~"$card"})`, "Cordoned"},
			{`max by (card) (cardquota_allocated_cards{card=~"$card"})`, "Allocated"},
			{`max by (card) (cardquota_granted_cards{card=~"$card"})`, "Granted"},
			{`max by (card) (cardquota_over_allocated_cards{card=~"$card"})`, "Over-allocated"},
		}},
		{number, "Anomalies", "Nodes and cards that need a look: kubectl describe cardinventory cluster.", "short", 8, []query{{`sum(max by (reason) (cardquota_anomalies))`, "Anomalies"}}},
		{lines, "Allocated and healthy cards", "Cards that pods hold, and cards of ready nodes.", "short", 12, []query{
			{`max by (card) (cardquota_allocated_cards{card=~"$card"})`, "{{card}} allocated"},
			{`max by (card) (cardquota_healthy_cards{card=~"$card"})`, "{{card}} healthy"},
		}},
		{stack, "Used by service type", "Cards that queues of each service type use, such as inference (online) and training (offline).", "short", 12, []query{
			{`sum by (service_type) (` + used + joined + info + `)`, "{{service_type}}"},
		}},
		{rows, "Online and offline", "Quota, used and pending cards of all queues of a service type, such as inference (online) and training (offline). In a tree, queues that inherit a quota count it each.", "short", 24, []query{
			{`sum by (service_type, card) (` + quota + joined + info + `)`, "Quota"},
			{`sum by (service_type, card) (` + used + joined + info + `)`, "Used"},
			{`sum by (service_type, card) (` + pending + joined + info + `)`, "Pending"},
		}},
		{rows, "Quota and usage by queue", "What each queue may use, uses and waits for.", "short", 24, []query{
			{`max by (tenant, project, service_type, queue, card) (` + quota + joined + info + `)`, "Quota"},
			{`max by (tenant, project, service_type, queue, card) (` + used + joined + info + `)`, "Used"},
			{`max by (tenant, project, service_type, queue, card) (` + pending + joined + info + `)`, "Pending"},
		}},
	},
}

var tenants = board{
	name: "tenant", title: "Cardquota / Tenant", from: "now-24h", variables: []variable{tenant, card},
	description: "One tenant: quota, usage, what waits and why, evictions, and the bill.",
	panels: []panel{
		{rows, "Cards", "What each queue of the tenant may use, uses and waits for.", "short", 14, []query{
			{`max by (project, queue, card) (` + quota + joined + ours + `)`, "Quota"},
			{`max by (project, queue, card) (` + used + joined + ours + `)`, "Used"},
			{`max by (project, queue, card) (` + pending + joined + ours + `)`, "Pending"},
		}},
		{rows, "Bill", "Card-hours of the shown time, by project, card and service type.", "short", 10, []query{
			{`sum by (project, card, service_type) (increase(cardquota_card_seconds_total{tenant=~"$tenant",card=~"$card"}[$__range])) / 3600`, "Card-hours"},
		}},
		{stack, "Used cards", "Cards that the tenant's queues use.", "short", 12, []query{{`max by (queue, card) (` + used + joined + ours + `)`, "{{queue}} {{card}}"}}},
		{lines, "Pending cards", "Cards that pending pods and jobs request.", "short", 12, []query{{`max by (queue, card) (` + pending + joined + ours + `)`, "{{queue}} {{card}}"}}},
		{stack, "Waiting by reason", "Cards that wait now, by the reason of status.blocked. kubectl describe cardq has the reason of each workload.", "short", 12, []query{
			{`sum by (queue, reason) (max by (queue, reason) (cardquota_blocked_cards)` + isOurs + `)`, "{{queue}} {{reason}}"},
		}},
		{lines, "Longest wait", "How long the oldest pending pod or job of each queue has waited.", "s", 12, []query{
			{`time() - max by (queue) (cardquota_oldest_pending_timestamp_seconds` + isOurs + `)`, "{{queue}}"},
		}},
		{lines, "Refusals by reason", "New refusals of the scheduler.", "short", 12, []query{
			{`sum by (queue, reason) (` + increaseOf("cardquota_refusals_total") + isOurs + `)`, "{{queue}} {{reason}}"},
		}},
		{lines, "Pods lost to other queues", "Pods that cardreclaim evicted so that another queue gets their cards.", "short", 12, []query{
			{`sum by (queue, reclaimer_service_type) (` + increaseOf("cardquota_reclaimed_pods_total") + isOurs + `)`, "{{queue}} for {{reclaimer_service_type}}"},
		}},
	},
}

var tide = board{
	name: "tide", title: "Cardquota / Tide", from: "now-24h", variables: []variable{card},
	description: "Inference takes cards back from training, and returns them: one day.",
	panels: []panel{
		{stack, "Used by service type", "Cards that queues of each service type use.", "short", 24, []query{{`sum by (service_type) (` + used + joined + info + `)`, "{{service_type}}"}}},
		{lines, "Pending by service type", "Cards that pending pods and jobs request.", "short", 12, []query{{`sum by (service_type) (` + pending + joined + info + `)`, "{{service_type}}"}}},
		{lines, "Time until pods are bound", "95 % of the pods were bound within this time after their creation.", "s", 12, []query{
			{`histogram_quantile(0.95, sum by (le, service_type) ` + increaseOf(`cardquota_pod_bound_seconds_bucket{card=~"$card"}`) + `)`, "{{service_type}}"},
		}},
		{lines, "Evicted pods", "Pods evicted for the service type that reclaims.", "short", 12, []query{
			{`sum by (reclaimer_service_type) ` + increaseOf("cardquota_reclaimed_pods_total"), "for {{reclaimer_service_type}}"},
		}},
		{lines, "Destroyed work", "Card-seconds since the last checkpoint that evictions destroyed, by the queue that lost them.", "short", 12, []query{
			{`sum by (queue) ` + increaseOf("cardquota_reclaimed_card_seconds_total"), "{{queue}}"},
		}},
	},
}

var health = board{
	name: "health", title: "Cardquota / Health", from: "now-6h",
	description: "Whether quotas are enforced, and whether operator and scheduler keep up.",
	panels: []panel{
		{number, "Quotas enforced", "Yes while quotas are proven to be enforced. No without a policy, and while no operator leads. kubectl describe stp default says why not.", "bool_yes_no", 6, []query{{`max(cardquota_enforced) or vector(0)`, "Enforced"}}},
		{number, "Scheduler places pods", "Yes while the scheduler places pods. No while no scheduler leads.", "bool_yes_no", 6, []query{{`max(cardquota_ready) or vector(0)`, "Ready"}}},
		{number, "Since the last session", "Time since the last scheduling session.", "s", 6, []query{{`time() - max(cardquota_last_session_timestamp_seconds)`, "Session"}}},
		{number, "Since the last count", "Time since the operator counted all pods.", "s", 6, []query{{`time() - max(cardquota_last_recount_timestamp_seconds)`, "Count"}}},
		{lines, "Time of a session", "99 % of the sessions spend at most this time in capacity-card.", "s", 12, []query{
			{`histogram_quantile(0.99, sum by (le, step) (rate(cardquota_session_seconds_bucket[$__rate_interval])))`, "{{step}}"},
		}},
		{lines, "Time of a count", "99 % of the counts of all pods take at most this time.", "s", 12, []query{
			{`histogram_quantile(0.99, sum by (le) (rate(cardquota_recount_seconds_bucket[$__rate_interval])))`, "count"},
		}},
		{lines, "Refusals by reason", "New refusals of the scheduler in all queues.", "short", 12, []query{{`sum by (reason) ` + increaseOf("cardquota_refusals_total"), "{{reason}}"}}},
		{lines, "Cards out of reach", "Cards held by pods without a queue, and nodes with wrong labels.", "short", 12, []query{
			{`sum(max by (card) (cardquota_card_unowned)) or vector(0)`, "cards without a queue"}, {`max(cardquota_nodes_anomalous)`, "nodes with wrong labels"},
		}},
	},
}
