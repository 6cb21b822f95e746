package alerts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// These are series in promtool's notation: a selector, and a value for each scrape. There is a scrape each 30 s, so 60 of
// them are half an hour: "1x60" is 1 all the time, "1x19 0x40" changes after ten minutes, "0+30x60" grows by 30 with each
// scrape, "_x19" is nothing yet, and "stale" is the end of a series.
const (
	operator         = `up{job="cardquota-manager",pod="m"} 1x240`
	operatorDies     = `up{job="cardquota-manager",pod="m"} 1x19 0x40`
	operatorGone     = `up{job="cardquota-manager",pod="m"} 1x19 stale`
	operatorIsNew    = `up{job="cardquota-manager",pod="m"} 1x19 0x3 1x35`
	scheduler        = `up{job="cardquota-scheduler",pod="s"} 1x60`
	enforced         = `cardquota_enforced{reason="Enforced"} 1x60`
	enforcedEnds     = `cardquota_enforced{reason="Enforced"} 1x19 stale`
	noHeartbeat      = `cardquota_enforced{reason="NoHeartbeat"} _x19 0x40`
	sessions         = `cardquota_last_session_timestamp_seconds{pod="s"} 0+30x60`
	sessionsStop     = `cardquota_last_session_timestamp_seconds{pod="s"} 0+30x19 570x40`
	sessionsGone     = `cardquota_last_session_timestamp_seconds{pod="s"} 0+30x19 stale`
	ready            = `cardquota_ready{pod="s"} 1x60`
	configured       = `cardquota_scheduler_config_valid{pod="s"} 1x60`
	configuredGone   = `cardquota_scheduler_config_valid{pod="s"} 1x19 stale`
	oneReason        = `cardquota_enforced{reason="ConfigNotLoaded"} 0 stale 0 stale 0 stale 0 stale 0 stale 0 stale`
	anotherReason    = `cardquota_enforced{reason="CardBypass"} stale 0 stale 0 stale 0 stale 0 stale 0 stale 0 stale`
	counted          = `cardquota_last_recount_timestamp_seconds{pod="m"} 0+30x240`
	countedEnds      = `cardquota_last_recount_timestamp_seconds{pod="m"} 0+30x19 stale`
	waitsForTwoHours = `cardquota_oldest_pending_timestamp_seconds{pod="m",queue="q"} 0x240`
	waitsWithinQuota = `cardquota_oldest_pending_within_quota_timestamp_seconds{pod="m",queue="q"} 0x240`
	waitingQueue     = `cardquota_queue_info{pod="m",queue="q",tenant="lab",project="llm",service_type="training",cardquota="q",parent=""} 1x240`
	notConfigured    = `cardquota_scheduler_config_valid{pod="s"} 0x60`
)

// Names of the alerts.
const (
	operatorAbsent    = "CardquotaOperatorAbsent"
	schedulingStands  = "CardquotaSchedulingStands"
	notEnforced       = "CardquotaNotEnforced"
	cardBypass        = "CardquotaCardBypass"
	queueOverQuota    = "CardquotaQueueOverQuota"
	cardsOutOfReach   = "CardquotaCardsOutOfReach"
	cardsWithoutQuota = "CardquotaCardsWithoutQuota"
	overAllocated     = "CardquotaOverAllocated"
	tenantStarving    = "CardquotaTenantStarving"
	evictionStorm     = "CardquotaEvictionStorm"
	recountStale      = "CardquotaRecountStale"
	billsNotStored    = "CardquotaBillsNotStored"
)

// anomalies are the series of all reasons for an anomaly. One node has an anomaly of the given reason, "" for
// none.
func anomalies(reason string) (series []string) {
	for _, known := range []string{"NoModelLabel", "SeveralModels", "AmbiguousResource", "InvalidLabel", "MoreThanLabelled", "UnmappedResource", "CardsOutsideQueues", "ResourceClaimCards", "CardsUnhealthy", "ModelChanged", "BillsNotStored", "BillDaysDropped"} {
		count := 0
		if known == reason {
			count = 1
		}
		series = append(series, fmt.Sprintf(`cardquota_anomalies{pod="m",reason=%q} %dx60`, known, count))
	}
	return series
}

// TestAlertsFireWithinHalfAnHour: Prometheus evaluates the alerts of config/prometheus every 30 s, on what both
// programs serve for half an hour. Each row has the series of one situation, and wants the alerts that fire at
// any time in it. An alert fires when its cause has lasted for 2 to 15 minutes. A series has one value per
// scrape, every 30 s. "1x19 0x40" changes from 1 to 0 after ten minutes, "0+30x60" grows by 30, "_x19" has no
// value yet, and "stale" ends the series. Constants such as operatorDies are series too: in this one the
// operator dies after ten minutes. anomalies(reason) are series with one anomaly of that reason. In rows with
// operator and without a series cardquota_last_recount_timestamp_seconds, it counts the pods all the time.
// notEnforced fires only while an operator says that quotas are not enforced. schedulingStands fires while no
// sessions place pods, although a policy exists and Volcano's own scheduler does not run.
func TestAlertsFireWithinHalfAnHour(t *testing.T) {
	for name, tc := range map[string]struct {
		series []string
		want   []string
	}{
		"all is well": {[]string{operator, enforced, sessions, ready, configured}, nil},
		"the programs are installed, and there is no policy yet": {
			[]string{operator, scheduler, notConfigured},
			nil,
		},
		"the operator is replaced, and is down for two minutes": {
			[]string{operatorIsNew, counted, enforced, sessions, ready, configured},
			nil, // the alert waits for 5 minutes
		},
		"the operator dies": {
			[]string{operatorDies, countedEnds, enforcedEnds, sessions, ready, configured},
			[]string{operatorAbsent},
		},
		"the operator is gone, and with it its target": {
			[]string{operatorGone, countedEnds, enforcedEnds, sessions, ready, configured},
			[]string{operatorAbsent},
		},
		"no operator was ever scraped, and there is no policy": {
			[]string{scheduler, notConfigured},
			[]string{operatorAbsent},
		},
		"the operator dies, and there is no policy": {
			[]string{operatorDies, countedEnds, scheduler, notConfigured},
			[]string{operatorAbsent},
		},
		"the scheduler leads, and its sessions stop": {
			[]string{operator, enforcedEnds, noHeartbeat, sessionsStop, ready, configured},
			[]string{notEnforced, schedulingStands},
		},
		"no replica of the scheduler leads any more": {
			[]string{operator, enforcedEnds, noHeartbeat, sessionsGone, configured},
			[]string{notEnforced, schedulingStands},
		},
		"sessions go on, and the scheduler is not ready": {
			[]string{operator, enforcedEnds, noHeartbeat, sessions, `cardquota_ready{pod="s"} 0x60`, configured},
			[]string{notEnforced, schedulingStands}, // its sessions place no pods
		},
		"sessions stop, and the operator dies too": {
			[]string{operatorDies, countedEnds, enforcedEnds, sessionsStop, ready, configured},
			[]string{operatorAbsent, schedulingStands},
		},
		"no replica of the scheduler leads, and the operator is gone too": {
			[]string{operatorGone, countedEnds, enforcedEnds, sessionsGone, configured},
			[]string{operatorAbsent, schedulingStands},
		},
		"both programs are gone": {
			[]string{operatorGone, countedEnds, enforcedEnds, sessionsGone, configuredGone},
			[]string{operatorAbsent, schedulingStands},
		},
		"the scheduler is not scraped": {[]string{operator, enforced}, nil}, // its heartbeat says that quotas are enforced
		"a new leader of the scheduler begins a minute later": {
			[]string{
				operator,
				enforced,
				`cardquota_last_session_timestamp_seconds{pod="s"} 0+30x19 stale _x2 690+30x36`,
				configured,
			},
			nil,
		},
		"the policy is deleted, so sessions need not go on": {
			[]string{operator, enforcedEnds, sessionsGone, `cardquota_scheduler_config_valid{pod="s"} 1x19 0x40`},
			nil, // without a policy the operator says nothing about quotas
		},
		"Volcano's own scheduler runs": {
			[]string{operator, `cardquota_enforced{reason="StockScheduler"} 0x60`, configured},
			[]string{notEnforced}, // it places pods, without quotas
		},
		"the policy observes, and Volcano's own scheduler runs": {
			[]string{operator, `cardquota_enforced{reason="Observing"} 0x60`, configured},
			nil, // nothing is meant to be enforced
		},
		"for two minutes the scheduler has not loaded the configuration": {
			[]string{
				operator,
				`cardquota_enforced{reason="Enforced"} 1x19 stale _x3 1x35`,
				`cardquota_enforced{reason="ConfigNotLoaded"} _x20 0x3 stale`,
				sessions,
				configured,
			},
			nil, // the alert waits for 3 minutes
		},
		"quotas are not enforced, for two reasons in turn": {
			[]string{operator, oneReason, anotherReason, sessions, configured},
			[]string{notEnforced},
		},
		"pods got cards without the scheduler, for half an hour": {
			[]string{operator, `cardquota_enforced{reason="CardBypass"} 0x60`, sessions, ready, configured},
			[]string{cardBypass},
		},
		"pods got cards without the scheduler, for less than a quarter of an hour": {
			[]string{
				operator,
				`cardquota_enforced{reason="CardBypass"} 0x29 stale`,
				`cardquota_enforced{reason="Enforced"} _x29 1x30`,
				sessions,
				ready,
				configured,
			},
			nil,
		},
		"pods got cards without the scheduler, and then a second scheduler runs": {
			[]string{
				operator,
				`cardquota_enforced{reason="CardBypass"} 0x19 stale`,
				`cardquota_enforced{reason="SecondScheduler"} _x19 0x40`,
				sessions,
				ready,
				configured,
			},
			[]string{notEnforced}, // CardBypass lasts for 10 minutes, and its alert waits for 15
		},
		"a queue uses 3 cards of a quota of 2": {
			[]string{
				operator,
				`cardquota_scheduler_used_cards{queue="q",card="A"} 3x60`,
				`cardquota_scheduler_quota_cards{queue="q",card="A"} 2x60`,
			},
			[]string{queueOverQuota},
		},
		"a queue uses 3 cards of a quota of 2, for less than a quarter of an hour": {
			[]string{
				operator,
				`cardquota_scheduler_used_cards{queue="q",card="A"} 3x29 2x30`,
				`cardquota_scheduler_quota_cards{queue="q",card="A"} 2x60`,
			},
			nil,
		},
		// Cards that no pod gets are out of reach, and cards that no quota limits are without quota.
		"an anomaly: a node without labels": {
			append(anomalies("NoModelLabel"), operator),
			[]string{cardsOutOfReach},
		},
		"an anomaly: a device plugin that is dead": {
			append(anomalies("CardsUnhealthy"), operator),
			[]string{cardsOutOfReach},
		},
		"an anomaly: a resource that no label names": {
			append(anomalies("UnmappedResource"), operator),
			[]string{cardsWithoutQuota},
		},
		"an anomaly: pods of no queue": {
			append(anomalies("CardsOutsideQueues"), operator),
			[]string{cardsWithoutQuota},
		},
		"no anomaly": {append(anomalies(""), operator), nil},
		"the scheduler alone knows a node without labels": {
			[]string{operator, `cardquota_nodes_anomalous 1x60`},
			[]string{cardsOutOfReach},
		},
		"the operator knows a resource that no label names, and the scheduler nothing": {
			append(anomalies("UnmappedResource"), operator, `cardquota_nodes_anomalous 0x60`, `cardquota_card_unowned{card="A"} 0x60`),
			[]string{cardsWithoutQuota},
		},
		"the operator serves, and counts no more": {
			[]string{operator, `cardquota_last_recount_timestamp_seconds{pod="m"} 0+30x19 570x40`},
			[]string{recountStale},
		},
		"bills are stored": {
			[]string{
				operator,
				`cardquota_card_seconds_stored_timestamp_seconds{pod="m"} 0+30x240`,
				`cardquota_card_seconds_without_room{pod="m",kind="sums"} 0x240`,
			},
			nil,
		},
		"an anomaly: a ConfigMap of bills cannot be written": {
			append(anomalies("BillsNotStored"), operator),
			[]string{billsNotStored},
		},
		"an anomaly: days of bills were dropped": {
			append(anomalies("BillDaysDropped"), operator),
			[]string{billsNotStored},
		},
		"there is no space for the days of bills": {
			[]string{operator, `cardquota_card_seconds_without_room{pod="m",kind="days"} 1x240`},
			[]string{billsNotStored},
		},
		"no replica of the operator counts any more": {
			[]string{operator, countedEnds},
			[]string{recountStale},
		},
		"another replica of the operator goes on counting": {
			[]string{
				operator,
				countedEnds,
				`cardquota_last_recount_timestamp_seconds{pod="n"} _x22 660+30x37`,
			},
			nil,
		},
		"a tide evicts 300 pods within five minutes": {
			[]string{
				operator,
				counted,
				`cardquota_reclaimed_pods_total{queue="q",reclaimer_service_type="inference"} 0x10 0+30x9 300x39`,
			},
			nil, // an eviction storm is more than 20 pods in each of two hours
		},
		"the scheduler alone knows a pod of no queue": {
			[]string{operator, `cardquota_card_unowned{card="A"} 1x60`},
			[]string{cardsWithoutQuota},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(tc.series, operator) && !slices.ContainsFunc(tc.series, func(series string) bool { return strings.HasPrefix(series, "cardquota_last_recount") }) {
				tc.series = append(tc.series, counted)
			}

			got := slices.Sorted(maps.Keys(newScene(t, tc.series...).firedAlerts(t)))
			slices.Sort(tc.want)
			equal(t, "alerts (-want +got)", tc.want, got)
		})
	}
}

// TestAlertsThatWaitForLongFireWithinTwoHours: some alerts wait for more than half an hour, so that a node that
// is down or a tide does not fire them. Each row has the series of one situation of two hours, and wants the
// alerts that fire. In each the operator counts, and queue q exists. A series has one value per scrape, every
// 30 s. "0x20 2x60" is 0 for ten minutes and then 2 for half an hour, "0+2x240" grows by 2. waitsForTwoHours is
// the oldest pending pod of q, and waitsWithinQuota the oldest for which q has quota left: both wait from 0 s on.
func TestAlertsThatWaitForLongFireWithinTwoHours(t *testing.T) {
	for name, tc := range map[string]struct {
		series []string
		want   []string
	}{
		"quotas exceed the healthy cards by 2": {
			[]string{`cardquota_over_allocated_cards{card="A"} 2x240`},
			[]string{overAllocated},
		},
		"quotas exceed the healthy cards by 2, and all CardQuotas allow that": {
			[]string{
				`cardquota_over_allocated_cards{card="A"} 2x240`,
				`cardquota_over_allocation_allowed{card="A"} 1x240`,
			},
			nil,
		},
		"quotas exceed the healthy cards by 2, and one CardQuota does not allow that": {
			[]string{
				`cardquota_over_allocated_cards{card="A"} 2x240`,
				`cardquota_over_allocation_allowed{card="A"} 0x240`,
			},
			[]string{overAllocated},
		},
		"quotas exceed the healthy cards by 2, and that is allowed for another card": {
			[]string{
				`cardquota_over_allocated_cards{card="A"} 2x240`,
				`cardquota_over_allocation_allowed{card="B"} 1x240`,
			},
			[]string{overAllocated},
		},
		"quotas exceed the healthy cards by 2 for half an hour": {
			[]string{`cardquota_over_allocated_cards{card="A"} 0x20 2x60 0x160`},
			nil, // the alert waits for an hour
		},
		"card-seconds were last stored two hours ago": {
			[]string{`cardquota_card_seconds_stored_timestamp_seconds{pod="m"} 0x240`},
			[]string{billsNotStored},
		},
		"card-seconds are stored every ten minutes": {
			[]string{
				`cardquota_card_seconds_stored_timestamp_seconds{pod="m"} 0x19 600x19 1200x19 1800x19 2400x19 3000x19 3600x19 4200x19 4800x19 5400x19 6000x19`,
			},
			nil,
		},
		"a pod waits, and quota is left for it": {
			[]string{waitsForTwoHours, waitsWithinQuota},
			[]string{tenantStarving}, // after an hour and a quarter
		},
		"pods wait for 8 cards, and 1 of the quota is left, so none waits within quota": {
			[]string{
				waitsForTwoHours,
				`cardquota_pending_cards{pod="m",queue="q",card="A"} 8x240`,
				`cardquota_quota_cards{pod="m",queue="q",card="A"} 10x240`,
				`cardquota_used_cards{pod="m",queue="q",card="A"} 9x240`,
			},
			nil,
		},
		"pods wait with quota left, another one each half hour": {
			[]string{
				waitsForTwoHours,
				`cardquota_oldest_pending_within_quota_timestamp_seconds{pod="m",queue="q"} 0x59 1800x60 3600x60 5400x60`,
			},
			nil, // none of them waits for an hour
		},
		"evictions go on, 2 each 30 s": {
			[]string{`cardquota_reclaimed_pods_total{pod="s",queue="q",reclaimer_service_type="inference"} 0+2x240`},
			[]string{evictionStorm}, // more than 20 pods in each of two hours
		},
		"a gang of 64 pods is evicted every 16 minutes": {
			[]string{
				`cardquota_reclaimed_pods_total{pod="s",queue="q",reclaimer_service_type="inference"} 0x31 64x31 128x31 192x31 256x31 320x31 384x31 448x31`,
			},
			[]string{evictionStorm},
		},
		"a tide evicts 200 pods once": {
			[]string{
				`cardquota_reclaimed_pods_total{pod="s",queue="q",reclaimer_service_type="inference"} 0x60 0+20x10 200x170`,
			},
			nil, // all within one hour
		},
	} {
		t.Run(name, func(t *testing.T) {
			scene := newScene(t, append(tc.series, operator, counted, waitingQueue)...)
			scene.length = 2 * time.Hour

			equal(t, "alerts (-want +got)", tc.want, slices.Sorted(maps.Keys(scene.firedAlerts(t))))
		})
	}
}

// TestSummariesNameWhatIsWrong: the summary of an alert names the reason, or the queue with its numbers or its
// tenant, so that an administrator knows where to look. Volcano's own scheduler runs, queue research uses 6 of 4
// H200, and a pod of queue q waits for an hour before the scrapes begin. The alert for this pod waits for a quarter
// of an hour more.
func TestSummariesNameWhatIsWrong(t *testing.T) {
	summaries := newScene(t, operator, waitingQueue,
		`cardquota_enforced{reason="StockScheduler"} 0x60`,
		`cardquota_scheduler_used_cards{queue="research",card="NVIDIA-H200"} 6x60`,
		`cardquota_scheduler_quota_cards{queue="research",card="NVIDIA-H200"} 4x60`,
		`cardquota_oldest_pending_within_quota_timestamp_seconds{queue="q"} -3600x60`,
	).firedAlerts(t)

	for alert, want := range map[string]string{
		notEnforced:    ": StockScheduler.",
		queueOverQuota: "research holds 6 NVIDIA-H200,",
		tenantStarving: "Queue q of tenant lab, project llm, has quota left, and its oldest pod that could use it has waited for 1h 15m",
	} {
		expectThat(t, strings.Contains(summaries[alert], want), "%s says %q, want …%s…", alert, summaries[alert], want)
	}
}

// TestEachAlertFiresInATest: the list has the alerts that the rows of the tests above want. config/prometheus
// has exactly these, in this order. So a new alert fails this test until it is in the list, and it needs a row
// that fires it. The test itself compares only the names.
func TestEachAlertFiresInATest(t *testing.T) {
	var names []string
	for _, rule := range parsedRules(t) {
		names = append(names, rule.Alert)
	}

	tested := []string{
		operatorAbsent, schedulingStands, notEnforced, cardBypass, queueOverQuota, cardsWithoutQuota,
		cardsOutOfReach, overAllocated, tenantStarving, evictionStorm, recountStale, billsNotStored,
	}
	equal(t, "alerts (-here +config/prometheus)", tested, names)
}
