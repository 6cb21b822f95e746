package alerts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// Half an hour each. These are the metrics that the programs serve in such a state.
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
	waitsForAnHour   = `cardquota_oldest_pending_timestamp_seconds{pod="m",queue="q"} 0x240`
	waitsWithinQuota = `cardquota_oldest_pending_within_quota_timestamp_seconds{pod="m",queue="q"} 0x240`
	waitingQueue     = `cardquota_queue_info{pod="m",queue="q",tenant="lab",project="llm",service_type="training",cardquota="q",parent=""} 1x240`
	notConfigured    = `cardquota_scheduler_config_valid{pod="s"} 0x60`
)

// Names of the alerts.
const (
	absent   = "CardquotaOperatorAbsent"
	stands   = "CardquotaSchedulingStands"
	unproven = "CardquotaNotEnforced"
	bypass   = "CardquotaCardBypass"
	over     = "CardquotaQueueOverQuota"
	outside  = "CardquotaCardsOutOfReach"
	freely   = "CardquotaCardsWithoutQuota"
	fleet    = "CardquotaOverAllocated"
	starving = "CardquotaTenantStarving"
	storm    = "CardquotaEvictionStorm"
	stale    = "CardquotaRecountStale"
	unstored = "CardquotaBillsNotStored"
)

// anomalies are the series of all reasons, with one anomaly of the given reason.
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

func TestAlertsFireWhenTheyShould(t *testing.T) {
	for name, tc := range map[string]struct {
		series []string
		want   []string
	}{
		"all is well":                                 {[]string{operator, enforced, sessions, ready, configured}, nil},
		"installed, and no policy yet":                {[]string{operator, scheduler, notConfigured}, nil},
		"the operator is replaced":                    {[]string{operatorIsNew, enforced, sessions, ready, configured}, nil},
		"the operator dies":                           {[]string{operatorDies, enforcedEnds, sessions, ready, configured}, []string{absent}},
		"the operator is gone altogether":             {[]string{operatorGone, enforcedEnds, sessions, ready, configured}, []string{absent}},
		"it never came, without a policy":             {[]string{scheduler, notConfigured}, []string{absent}},
		"it dies, without a policy":                   {[]string{operatorDies, scheduler, notConfigured}, []string{absent}},
		"sessions stop":                               {[]string{operator, enforcedEnds, noHeartbeat, sessionsStop, ready, configured}, []string{unproven, stands}},
		"no replica leads":                            {[]string{operator, enforcedEnds, noHeartbeat, sessionsGone, configured}, []string{unproven, stands}},
		"sessions decide nothing":                     {[]string{operator, enforcedEnds, noHeartbeat, sessions, `cardquota_ready{pod="s"} 0x60`, configured}, []string{unproven, stands}},
		"sessions stop without operator":              {[]string{operatorDies, enforcedEnds, sessionsStop, ready, configured}, []string{absent, stands}},
		"no replica leads, no operator":               {[]string{operatorGone, enforcedEnds, sessionsGone, configured}, []string{absent, stands}},
		"both programs are gone":                      {[]string{operatorGone, enforcedEnds, sessionsGone, configuredGone}, []string{absent, stands}},
		"the scheduler is not scraped":                {[]string{operator, enforced}, nil},
		"a new leader takes a while":                  {[]string{operator, enforced, `cardquota_last_session_timestamp_seconds{pod="s"} 0+30x19 stale _x2 690+30x36`, configured}, nil},
		"the policy is taken back":                    {[]string{operator, enforcedEnds, sessionsGone, `cardquota_scheduler_config_valid{pod="s"} 1x19 0x40`}, nil},
		"Volcano's own scheduler works":               {[]string{operator, `cardquota_enforced{reason="StockScheduler"} 0x60`, configured}, []string{unproven}},
		"a mounted configuration arrives":             {[]string{operator, `cardquota_enforced{reason="Enforced"} 1x19 stale _x3 1x35`, `cardquota_enforced{reason="ConfigNotLoaded"} _x20 0x3 stale`, sessions, configured}, nil},
		"for one reason and for another":              {[]string{operator, oneReason, anotherReason, sessions, configured}, []string{unproven}},
		"pods hold cards past it":                     {[]string{operator, `cardquota_enforced{reason="CardBypass"} 0x60`, sessions, ready, configured}, []string{bypass}},
		"not for a quarter of an hour":                {[]string{operator, `cardquota_enforced{reason="CardBypass"} 0x29 stale`, `cardquota_enforced{reason="Enforced"} _x29 1x30`, sessions, ready, configured}, nil},
		"and then a second scheduler does":            {[]string{operator, `cardquota_enforced{reason="CardBypass"} 0x19 stale`, `cardquota_enforced{reason="SecondScheduler"} _x19 0x40`, sessions, ready, configured}, []string{unproven}},
		"a queue holds too much":                      {[]string{operator, `cardquota_scheduler_used_cards{queue="q",card="A"} 3x60`, `cardquota_scheduler_quota_cards{queue="q",card="A"} 2x60`}, []string{over}},
		"for a quarter of an hour at most":            {[]string{operator, `cardquota_scheduler_used_cards{queue="q",card="A"} 3x29 2x30`, `cardquota_scheduler_quota_cards{queue="q",card="A"} 2x60`}, nil},
		"a node without labels":                       {append(anomalies("NoModelLabel"), operator), []string{outside}},
		"a dead device plugin":                        {append(anomalies("CardsUnhealthy"), operator), []string{outside}},
		"a resource that no label names":              {append(anomalies("UnmappedResource"), operator), []string{freely}},
		"pods of no queue":                            {append(anomalies("CardsOutsideQueues"), operator), []string{freely}},
		"no anomaly":                                  {append(anomalies(""), operator), nil},
		"a node without labels, no operator to count": {[]string{operator, `cardquota_nodes_anomalous 1x60`}, []string{outside}},
		"the scheduler alone sees nothing":            {append(anomalies("UnmappedResource"), operator, `cardquota_nodes_anomalous 0x60`, `cardquota_card_unowned{card="A"} 0x60`), []string{freely}},
		"the operator counts no more":                 {[]string{operator, `cardquota_last_recount_timestamp_seconds{pod="m"} 0+30x19 570x40`}, []string{stale}},
		"bills are stored":                            {[]string{operator, `cardquota_card_seconds_stored_timestamp_seconds{pod="m"} 0+30x240`, `cardquota_card_seconds_without_room{pod="m",kind="sums"} 0x240`}, nil},
		"a ConfigMap of bills cannot be written":      {append(anomalies("BillsNotStored"), operator), []string{unstored}},
		"days of bills were dropped":                  {append(anomalies("BillDaysDropped"), operator), []string{unstored}},
		"no room for days":                            {[]string{operator, `cardquota_card_seconds_without_room{pod="m",kind="days"} 1x240`}, []string{unstored}},
		"no replica of it counts":                     {[]string{operator, `cardquota_last_recount_timestamp_seconds{pod="m"} 0+30x19 stale`}, []string{stale}},
		"another replica counts":                      {[]string{operator, `cardquota_last_recount_timestamp_seconds{pod="m"} 0+30x19 stale`, `cardquota_last_recount_timestamp_seconds{pod="n"} _x22 660+30x37`}, nil},
		"a tide evicts many pods":                     {[]string{operator, counted, `cardquota_reclaimed_pods_total{queue="q",reclaimer_service_type="inference"} 0x10 0+30x9 300x39`}, nil},
		"a pod of no queue, no operator to count":     {[]string{operator, `cardquota_card_unowned{card="A"} 1x60`}, []string{freely}},
	} {
		t.Run(name, func(t *testing.T) {
			if !slices.ContainsFunc(tc.series, func(series string) bool { return strings.HasPrefix(series, "cardquota_last_recount") }) {
				tc.series = append(tc.series, counted)
			}

			got := slices.Sorted(maps.Keys(newScene(t, tc.series...).firedAlerts(t)))
			slices.Sort(tc.want)
			equal(t, "alerts (-want +got)", tc.want, got)
		})
	}
}

// TestSlowAlerts needs more than half an hour.
func TestSlowAlerts(t *testing.T) {
	for name, tc := range map[string]struct {
		series []string
		want   []string
	}{
		"quotas exceed the healthy cards":             {[]string{`cardquota_over_allocated_cards{card="A"} 2x240`}, []string{fleet}},
		"quotas exceed them, as all CardQuotas allow": {[]string{`cardquota_over_allocated_cards{card="A"} 2x240`, `cardquota_over_allocation_allowed{card="A"} 1x240`}, nil},
		"quotas exceed them, and one warns":           {[]string{`cardquota_over_allocated_cards{card="A"} 2x240`, `cardquota_over_allocation_allowed{card="A"} 0x240`}, []string{fleet}},
		"another card may be over-allocated":          {[]string{`cardquota_over_allocated_cards{card="A"} 2x240`, `cardquota_over_allocation_allowed{card="B"} 1x240`}, []string{fleet}},
		"a node is down for half an hour":             {[]string{`cardquota_over_allocated_cards{card="A"} 0x20 2x60 0x160`}, nil},
		"a bill cannot be written":                    {[]string{`cardquota_card_seconds_stored_timestamp_seconds{pod="m"} 0x240`}, []string{unstored}},
		"bills are stored at rest":                    {[]string{`cardquota_card_seconds_stored_timestamp_seconds{pod="m"} 0x19 600x19 1200x19 1800x19 2400x19 3000x19 3600x19 4200x19 4800x19 5400x19 6000x19`}, nil},
		"a pod waits within its quota":                {[]string{waitsForAnHour, waitsWithinQuota}, []string{starving}},
		"pods wait for quota, for more than is left, or for no card": {[]string{waitsForAnHour, `cardquota_pending_cards{pod="m",queue="q",card="A"} 8x240`,
			`cardquota_quota_cards{pod="m",queue="q",card="A"} 10x240`, `cardquota_used_cards{pod="m",queue="q",card="A"} 9x240`}, nil},
		"another pod waits each half an hour":     {[]string{waitsForAnHour, `cardquota_oldest_pending_within_quota_timestamp_seconds{pod="m",queue="q"} 0x59 1800x60 3600x60 5400x60`}, nil},
		"evictions go on":                         {[]string{`cardquota_reclaimed_pods_total{pod="s",queue="q",reclaimer_service_type="inference"} 0+2x240`}, []string{storm}},
		"a large gang is evicted again and again": {[]string{`cardquota_reclaimed_pods_total{pod="s",queue="q",reclaimer_service_type="inference"} 0x31 64x31 128x31 192x31 256x31 320x31 384x31 448x31`}, []string{storm}},
		"a tide evicts once":                      {[]string{`cardquota_reclaimed_pods_total{pod="s",queue="q",reclaimer_service_type="inference"} 0x60 0+20x10 200x170`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			scene := newScene(t, append(tc.series, operator, counted, waitingQueue)...)
			scene.length = 2 * time.Hour

			equal(t, "alerts (-want +got)", tc.want, slices.Sorted(maps.Keys(scene.firedAlerts(t))))
		})
	}
}

func TestSummariesNameWhatIsWrong(t *testing.T) {
	fired := newScene(t, operator, `cardquota_enforced{reason="StockScheduler"} 0x60`,
		`cardquota_scheduler_used_cards{queue="research",card="NVIDIA-H200"} 6x60`,
		`cardquota_scheduler_quota_cards{queue="research",card="NVIDIA-H200"} 4x60`,
		`cardquota_oldest_pending_within_quota_timestamp_seconds{queue="q"} -3600x60`, waitingQueue).firedAlerts(t)
	for alert, want := range map[string]string{
		unproven: ": StockScheduler.", over: "research holds 6 NVIDIA-H200,", starving: "Queue q of tenant lab, project llm, has quota left, and its oldest pod that could use it has waited for 1h 15m",
	} {
		if !strings.Contains(fired[alert], want) {
			t.Errorf("%s says %q, want …%s…", alert, fired[alert], want)
		}
	}
}

// An alert that fires in no case above is not tested.
func TestEveryAlertIsKnown(t *testing.T) {
	var names []string
	for _, rule := range parsedRules(t) {
		names = append(names, rule.Alert)
	}
	equal(t, "alerts (-here +config/prometheus)", []string{absent, stands, unproven, bypass, over, freely, outside, fleet, starving, storm, stale, unstored}, names)
}
