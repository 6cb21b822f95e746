package answers

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/why/explanation"
)

// tenantAnswers are what a tenant finds out in three ways.
type tenantAnswers struct {
	// events are the messages of the warnings in kubectl describe pod, the last one at the end.
	events []string
	// view is the LocalCardQuota of the queue, nil if there is none, and entry its entry of the pod,
	// nil if it lists others only.
	view  *api.LocalCardQuota
	entry *api.BlockedStatus
	// table is what kubectl get lcq prints.
	table string
	why   explanation.Document
	text  string
}

// askAsTenant asks in three ways as the tenant, compares the answers with each other, and then with a
// golden file.
func (p *play) askAsTenant(t *testing.T, s state, pod string) {
	newGomega(t).Eventually(func() string {
		answers, err := p.tenantAnswers(t, s, pod)
		if err != nil {
			return err.Error()
		}
		return answers.contradiction(s)
	}).Should(gomega.BeEmpty())

	compareGolden(t, "tenant/"+s.name, func() string {
		answers, err := p.tenantAnswers(t, s, pod)
		if err != nil {
			t.Log(err)
			return ""
		}
		return answers.String()
	})
}

// tenantAnswers asks kubectl describe pod, kubectl get lcq, and why.
func (p *play) tenantAnswers(t *testing.T, s state, pod string) (tenantAnswers, error) {
	var a tenantAnswers
	kubectl := func(args ...string) (string, error) {
		return p.cluster.Kubectl(t.Context(), append(args, "-n", s.name, "--as", tenant)...)
	}

	described, errDescribe := kubectl("describe", "pod", pod)
	table, errTable := kubectl("get", "lcq")
	listed, errList := kubectl("get", "lcq", "-o", "json")
	if err := errors.Join(errDescribe, errTable, errList); err != nil {
		return a, err
	}

	a.events = warningsOf(described)
	a.table = table
	var views api.LocalCardQuotaList
	if err := json.Unmarshal([]byte(listed), &views); err != nil {
		return a, err
	}

	out, errOut, _ := p.ask(t.Context(), "why", pod, "-n", s.name, "--as", tenant, "-o", "json")
	if err := json.Unmarshal([]byte(out), &a.why); err != nil {
		return a, fmt.Errorf("%w: %s", err, errOut)
	}

	a.text, _, _ = p.ask(t.Context(), "why", pod, "-n", s.name, "--as", tenant)
	for i := range views.Items {
		if view := &views.Items[i]; view.Status.Queue == a.why.Queue {
			a.view = view
			at := slices.IndexFunc(view.Status.Blocked, func(b api.BlockedStatus) bool { return b.Workload.Name == waits })
			if at >= 0 {
				a.entry = &view.Status.Blocked[at]
			}
		}
	}

	return a, nil
}

// warningsOf returns the messages of the warnings that kubectl describe lists.
func warningsOf(described string) []string {
	_, events, _ := strings.Cut(described, "\nEvents:")
	var messages []string
	column := -1
	for line := range strings.Lines(events) {
		line = strings.TrimRight(line, "\n")
		if at := strings.Index(line, "Message"); column < 0 && at > 0 {
			column = at
			continue
		}

		if strings.HasPrefix(strings.TrimSpace(line), "Warning") && column > 0 && len(line) > column {
			messages = append(messages, line[column:])
		}
	}

	return messages
}

// contradiction returns where the answers differ from the state, or from each other.
func (a tenantAnswers) contradiction(s state) string {
	switch {
	case len(a.events) == 0:
		return "kubectl describe pod shows no warning"
	case a.why.Reason != s.reason:
		return fmt.Sprintf("why says %q, want %s: %s", a.why.Reason, s.reason, a.why.Message)
	case !slices.Contains(a.events, a.why.Message):
		return fmt.Sprintf("why says %q, and the events of the pod are %q", a.why.Message, a.events)
	case s.hasNoView != (a.view == nil):
		return fmt.Sprintf("a LocalCardQuota of the queue: %v", a.view)
	case a.view == nil:
		return ""
	case !strings.Contains(a.table, string(s.reason)):
		return "kubectl get lcq shows another reason:\n" + a.table
	}

	return a.contradictionOfView(s)
}

// contradictionOfView compares the LocalCardQuota with the other answers.
func (a tenantAnswers) contradictionOfView(s state) string {
	status := a.view.Status
	isFull := len(status.Blocked) == 10
	switch {
	case isFull && int(status.BlockedTotal) <= len(status.Blocked):
		return fmt.Sprintf("%d workloads wait, and the total is %d", len(status.Blocked)+1, status.BlockedTotal)
	case a.entry == nil && isFull:
		return ""
	case a.entry == nil:
		return fmt.Sprintf("the LocalCardQuota does not list the pod: %+v", status.Blocked)
	case a.entry.Reason != s.reason || a.entry.Message != a.why.Message:
		return fmt.Sprintf("the LocalCardQuota says %s: %q, and why says %s: %q", a.entry.Reason, a.entry.Message, a.why.Reason, a.why.Message)
	case a.entry.Count > 0 && !strings.Contains(a.why.Summary, fmt.Sprintf(" waits for %d %s ", a.entry.Count, strings.ReplaceAll(a.entry.Card, "|", " or "))):
		return fmt.Sprintf("the LocalCardQuota says %d %s: %q", a.entry.Count, a.entry.Card, a.why.Summary)
	}

	return ""
}

// String returns the answers as the tenant sees them. Of the events it has the one that why repeats: while
// another state was brought about, the scheduler may have stated something else.
func (a tenantAnswers) String() string {
	if !slices.Contains(a.events, a.why.Message) {
		return ""
	}
	return "$ kubectl describe pod\n" + a.why.Message + "\n\n$ kubectl get lcq\n" + a.table + "\n$ kubectl cardquota why\n" + a.text
}
