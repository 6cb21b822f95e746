package cardinventory

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// Bills is what keeps card-seconds from being stored. The zero value is nothing.
type Bills struct {
	// Refused are the ConfigMaps that cannot be written or read, and why, by namespace and name.
	Refused map[string]metav1.StatusReason
	// SumsWithoutRoom and MonthsWithoutRoom are how many sums and months no ConfigMap has room for.
	SumsWithoutRoom, MonthsWithoutRoom int
	// DaysDropped is the last day that was dropped lately because there was no room, "" if none was.
	DaysDropped string
}

// billRemedies say what to do about ConfigMaps that the API server refuses to write.
var billRemedies = map[metav1.StatusReason]string{
	metav1.StatusReasonForbidden: "apply the Roles of the operator's version, or let the policy that refuses it allow the operator",
	metav1.StatusReasonInvalid:   "make it mutable: save it, delete it, and create it without immutable",
}

// addBills adds what keeps card-seconds from being stored. ConfigMaps that are refused for the same reason are one
// anomaly.
func (l anomalyList) addBills(bills Bills) {
	add := func(reason v1alpha1.AnomalyReason, format string, values ...any) {
		l.add(anomalyKey{reason: reason, text: fmt.Sprintf(format, values...)}, "", 0)
	}

	byReason := map[metav1.StatusReason][]string{}
	for _, name := range slices.Sorted(maps.Keys(bills.Refused)) {
		byReason[bills.Refused[name]] = append(byReason[bills.Refused[name]], name)
	}

	for reason, names := range byReason {
		remedy := billRemedies[reason]
		if remedy == "" {
			remedy = "see the log of cardquota-manager"
		}
		add(v1alpha1.AnomalyBillsNotStored, "%s cannot be used (%s), so a restart of the operator would lose card-seconds of bills: %s",
			listNames("ConfigMap", names), describeStatusReason(reason), remedy)
	}

	const noRoom = "no ConfigMap of card-seconds has room for %d %s: save the reports of old months, then delete the ConfigMaps that have only these"
	if bills.SumsWithoutRoom > 0 {
		add(v1alpha1.AnomalyBillsNotStored, noRoom, bills.SumsWithoutRoom, "more sums of queues and cards, which a restart of the operator would lose")
	}

	if bills.MonthsWithoutRoom > 0 {
		add(v1alpha1.AnomalyBillsNotStored, noRoom, bills.MonthsWithoutRoom, "closed months, which stay where they are")
	}

	if bills.DaysDropped != "" {
		add(v1alpha1.AnomalyBillDaysDropped, "the card-seconds of days until %s were dropped, because the ConfigMaps of card-seconds are full: reports of these days fail, those of months are right; save the reports of other days that you need",
			bills.DaysDropped)
	}
}

// describeStatusReason returns why the API server refuses a write.
func describeStatusReason(reason metav1.StatusReason) string {
	if reason == metav1.StatusReasonUnknown {
		return "no answer of the API server"
	}
	return string(reason)
}
