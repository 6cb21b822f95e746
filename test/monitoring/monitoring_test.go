package monitoring

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
)

// TestADayIsSeen: an administrator sees with the shipped dashboards and alerts what happens in a cluster. The test
// plays a day (Day, then Handover, when another operator begins to lead) while Prometheus scrapes both programs
// each second. A scrape without a token is refused. Then every query of every board has data, and every alert was
// pending and has a runbook. Cards, card-seconds and bills are what pods, nodes and statuses say, and bills have the
// time without a leader too.
func TestADayIsSeen(t *testing.T) {
	e, err := Start(t.Context(), time.Second)
	if errors.Is(err, ErrNoPrometheus) {
		missing.Skip(t, err)
	}

	check.NoError(t, err)
	t.Cleanup(func() { check.NoError(t, e.Stop()) })

	dawn := time.Now()
	seen := map[string]bool{}
	play := func(scenes []Scene) {
		for _, scene := range scenes {
			begin := time.Now()
			check.NoError(t, e.Play(t.Context(), scene))
			for _, name := range scene.Alerts {
				e.checkAlert(t, name)
				seen[name] = true
			}
			t.Logf("%s: %.1f s", scene.Name, time.Since(begin).Seconds())
		}
	}

	play(Day)
	dusk := time.Now()
	e.checkTargets(t)
	e.checkBoards(t, dawn, dusk)
	e.checkCards(t)
	play(Handover[:1])

	evening := e.checkReport(t)
	e.checkTable(t, evening)
	play(Handover[1:])
	e.checkCardSeconds(t, e.awaitCredit(t, time.Now())) // when the next leader has credited the time without one
	checkGrowth(t, evening, e.checkReport(t))

	for _, rule := range e.Rules {
		check.That(t, seen[rule.Alert], "no scene plays what %s reports", rule.Alert)
		e.checkSelectors(t, rule, dawn)
	}
}

// checkAlert waits until an alert is pending or firing, and checks that its runbook has a section.
func (e *Env) checkAlert(t *testing.T, name string) {
	alert := check.Value(e.Prometheus.AwaitAlert(t.Context(), name))(t)
	runbooks := check.Value(os.ReadFile(filepath.Join(e.Root, "docs", "runbooks.md")))(t)
	check.Equal(t, "runbook of "+name, model.LabelValue("https://cardquota.dev/docs/runbooks#"+strings.ToLower(name)), alert.Annotations["runbook_url"])
	check.That(t, strings.Contains(string(runbooks), "\n## "+name+"\n"), "docs/runbooks.md has no section %s", name)
	check.That(t, !strings.Contains(string(alert.Annotations["summary"]), "no value"), "summary of %s: %s", name, alert.Annotations["summary"])
}

// checkTargets checks that a reader without a token is refused for that reason.
func (e *Env) checkTargets(t *testing.T) {
	targets := check.Value(e.Prometheus.Targets(t.Context()))(t)
	check.Equal(t, "targets", 3, len(targets.Active))
	for _, target := range targets.Active {
		refused := strings.Contains(target.LastError, "401 Unauthorized")
		check.That(t, refused == (target.ScrapePool == withoutTokenJob), "%s: %q", target.ScrapePool, target.LastError)
	}
}

// checkBoards asks for every query of every board, and expects data.
func (e *Env) checkBoards(t *testing.T, from, to time.Time) {
	boards := check.Value(ReadBoards(e.Root))(t)

	asked := 0
	for _, board := range boards {
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				for _, tenant := range []string{".*", "lab"} {
					asked++
					answer, err := e.Prometheus.AskTarget(t.Context(), target, tenant, from, to)
					check.That(t, err == nil && len(answer) > 0, "%s, panel %q, tenant %s: %d series, error %v: %s",
						board.Name, panel.Title, tenant, len(answer), err, target.Expr)
					grows := strings.Contains(target.Expr, "increase(")
					check.That(t, !grows || greatest(answer) > 0, "%s, panel %q, tenant %s shows only zeros: %s", board.Name, panel.Title, tenant, target.Expr)
				}
			}
		}
	}

	for _, job := range []string{managerJob, schedulerJob} { // distinguishes a young counter from an old one
		answer, err := e.Prometheus.Ask(t.Context(), fmt.Sprintf("process_start_time_seconds{job=%q}", job), time.Now())
		check.That(t, err == nil && len(answer) == 1, "the start of %s: %v, error %v", job, answer, err)
	}

	check.That(t, asked > 60, "only %d queries were asked", asked)
}

// greatest returns the greatest value of all series.
func greatest(answer model.Matrix) (value model.SampleValue) {
	for _, series := range answer {
		for _, at := range series.Values {
			value = max(value, at.Value)
		}
	}
	return value
}

// checkSelectors expects data of every selector of an alert at some time of the day.
func (e *Env) checkSelectors(t *testing.T, rule Rule, from time.Time) {
	selectors := rule.selectors()
	check.That(t, len(selectors) > 0, "%s asks for nothing", rule.Alert)
	for _, selector := range selectors {
		answer, err := e.Prometheus.AskRange(t.Context(), selector, from, time.Now())
		check.That(t, err == nil && len(answer) > 0, "%s: %d series, error %v: %s", rule.Alert, len(answer), err, selector)
	}
}

// checkCards compares with the pods, the nodes and the status of the CardQuotas.
func (e *Env) checkCards(t *testing.T) {
	pods := &corev1.PodList{}
	nodes := &corev1.NodeList{}
	quotas := &v1alpha1.CardQuotaList{}
	check.NoError(t, errors.Join(e.List(t.Context(), pods), e.List(t.Context(), nodes), e.List(t.Context(), quotas)))
	models := map[string]string{}
	physical := map[string]float64{}
	ofPods := map[string]float64{}
	status := map[string]float64{}

	for _, node := range nodes.Items {
		models[node.Name] = node.Labels["nvidia.com/gpu.product"]
		if models[node.Name] != "" {
			count := node.Status.Allocatable[builder.GPU]
			physical[models[node.Name]] += count.AsApproximateFloat64()
		}
	}

	for _, pod := range pods.Items {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			count := pod.Spec.Containers[0].Resources.Limits[builder.GPU]
			ofPods[models[pod.Spec.NodeName]] += count.AsApproximateFloat64()
		}
	}

	for _, quota := range quotas.Items {
		for _, card := range quota.Status.Cards {
			status[card.Name] += float64(card.Used)
		}
	}

	check.Equal(t, "cards of pods, and by status", ofPods, status)
	check.Equal(t, "cards of nodes", physical, e.byCard(t, "max by (card) (cardquota_physical_cards)", time.Now()))
	for _, used := range []string{"cardquota_used_cards", "cardquota_scheduler_used_cards", "cardquota_allocated_cards"} {
		check.Equal(t, used, ofPods, e.byCard(t, "sum by (card) ("+used+")", time.Now()))
	}
}

// byCard returns the values of a query by card.
func (e *Env) byCard(t *testing.T, query string, at time.Time) map[string]float64 {
	answer := check.Value(e.Prometheus.Ask(t.Context(), query, at))(t)
	values := map[string]float64{}
	for _, sample := range answer {
		values[string(sample.Metric["card"])] = float64(sample.Value)
	}
	return values
}

// checkCardSeconds compares the card-seconds that the operator has stored, and what a bill has of them,
// with the used cards at each scrape. Pods without a queue are in no usage of a queue.
func (e *Env) checkCardSeconds(t *testing.T, now time.Time) {
	stored := e.byCard(t, `sum by (card) (cardquota_card_seconds_total{pod_namespace=""})`, now)
	billed := e.byCard(t, `sum by (card) (increase(cardquota_card_seconds_total{pod_namespace=""}[30m]))`, now)
	check.That(t, len(stored) == 2, "card-seconds %v", stored)
	for card, seconds := range stored {
		want, slack := e.usedUntil(t, fmt.Sprintf("card=%q", card), e.writtenAt(t, now))
		t.Logf("%s: %.0f card-seconds, billed %.0f, by scrapes %.0f", card, seconds, billed[card], want)
		for _, got := range []float64{seconds, billed[card]} {
			check.That(t, want > 0 && math.Abs(got-want) <= slack, "%s has %.0f card-seconds, by scrapes %.0f", card, got, want)
		}
	}
}

// usedUntil returns the card-seconds by the used cards at each scrape until sums were written. Without an
// operator that leads, pods use the same cards, and a missed scrape changes nothing. A count that is a second
// late at each of the day's changes is less than a twentieth and four seconds.
func (e *Env) usedUntil(t *testing.T, selector string, written time.Time) (want, slack float64) {
	used := fmt.Sprintf("sum(last_over_time(cardquota_used_cards{%s}[5m]))", selector)
	want = e.valueOf(t, fmt.Sprintf("sum_over_time(%s[30m:1s])", used), written)
	return want, 0.05*want + 4*e.valueOf(t, fmt.Sprintf("max_over_time(%s[30m:1s])", used), written)
}

// writtenAt returns when the card-seconds changed last that are served at a time.
func (e *Env) writtenAt(t *testing.T, at time.Time) (written time.Time) {
	answer := check.Value(e.Prometheus.AskRange(t.Context(), "sum(last_over_time(cardquota_card_seconds_total[5m]))", at.Add(-5*time.Minute), at))(t)
	check.Must(t, len(answer) == 1, "%d sums of card-seconds", len(answer))
	for i, sample := range answer[0].Values {
		if i > 0 && sample.Value != answer[0].Values[i-1].Value {
			written = sample.Timestamp.Time()
		}
	}
	return written
}

// awaitCredit waits until the next leader has written sums of its own: with its first count it credits the
// time without a leader. Before, it serves what it has loaded, and a query may see that some scrapes later.
// It returns a time from then on.
func (e *Env) awaitCredit(t *testing.T, leads time.Time) (end time.Time) {
	check.NoError(t, e.Prometheus.poll(t.Context(), func(context.Context) error {
		end = time.Now()
		if e.writtenAt(t, end).After(leads.Add(2 * e.Prometheus.Interval)) {
			return nil
		}
		return errors.New("the next leader writes no card-seconds")
	}))
	return end
}

// TestSelectorsAreReadFromTheQueryOfAnAlert: each metric of an alert's query is checked for data, because an alert
// on a metric that no program writes never fires. A selector is the metric with its labels, without functions,
// operators and the range.
func TestSelectorsAreReadFromTheQueryOfAnAlert(t *testing.T) {
	got := Rule{Expr: `time() - max(cardquota_a_seconds) > 60 or absent(up{job="x"} == 1) and on() count(count_over_time(cardquota_b{reason!~"A|B"}[2m])) > 0`}.selectors()
	want := []string{`cardquota_a_seconds`, `up{job="x"}`, `cardquota_b{reason!~"A|B"}`}
	check.That(t, slices.Equal(got, want), "selectors %q, want %q", got, want)
}
