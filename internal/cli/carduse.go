package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/cli/carduse"
	"cardquota.dev/operator/internal/cli/output"
)

// prometheusSource asks Prometheus for the operator's counter.
type prometheusSource struct {
	connection *prometheusConnection
	api        promv1.API
	matchers   []string
}

var _ carduse.Source = &prometheusSource{}

// Largest implements carduse.Source.
func (s *prometheusSource) Largest(ctx context.Context, start, end time.Time, step, before time.Duration) ([]carduse.Values, error) {
	return s.queryValues(ctx, carduse.LargestQuery(s.matchers, before), start, end, step)
}

// Smallest implements carduse.Source.
func (s *prometheusSource) Smallest(ctx context.Context, at time.Time, before time.Duration) (carduse.Values, error) {
	values, err := s.queryValues(ctx, carduse.SmallestQuery(s.matchers, before), at, at, before)
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

func (s *prometheusSource) queryValues(ctx context.Context, query string, start, end time.Time, step time.Duration) ([]carduse.Values, error) {
	matrix, err := s.query(ctx, query, start, end, step)
	if err != nil {
		return nil, err
	}
	all := make([]carduse.Values, int(end.Sub(start)/step)+1)
	for i := range all {
		all[i] = carduse.Values{}
	}
	for _, stream := range matrix {
		series := cardseconds.Series{
			Tenant: string(stream.Metric["tenant"]), Project: string(stream.Metric["project"]), Queue: string(stream.Metric["queue"]),
			Card: string(stream.Metric["card"]), ServiceType: string(stream.Metric["service_type"]),
			Namespace: string(stream.Metric["pod_namespace"]),
		}
		for _, pair := range stream.Values {
			value, err := toMilli(float64(pair.Value))
			if err != nil {
				return nil, fmt.Errorf("%s of queue %s and card %s: %w", carduse.Counter, output.Clean(series.Queue), output.Clean(series.Card), err)
			}
			if i := int(pair.Timestamp.Time().Sub(start).Round(time.Second) / step); i >= 0 && i < len(all) {
				all[i][series] = value
			}
		}
	}
	return all, nil
}

// maxCardSeconds is more than 100,000 cards use in a century.
const maxCardSeconds = 1e15

// toMilli returns thousandths.
func toMilli(value float64) (int64, error) {
	if math.IsNaN(value) || value < 0 || value > maxCardSeconds {
		return 0, fmt.Errorf("%v is no number of card-seconds", value)
	}
	return int64(math.Round(value * 1000)), nil
}

// Exporters implements carduse.Source.
func (s *prometheusSource) Exporters(ctx context.Context, start, end time.Time, step time.Duration) ([]carduse.Exporter, error) {
	matrix, err := s.query(ctx, carduse.ExportersQuery(s.matchers), start, end, step)
	if err != nil {
		return nil, err
	}
	exporters := make([]carduse.Exporter, 0, len(matrix))
	for _, stream := range matrix {
		exporter := carduse.Exporter{Labels: map[string]string{}}
		for name, value := range stream.Metric {
			exporter.Labels[string(name)] = string(value)
		}
		for _, pair := range stream.Values {
			exporter.At = append(exporter.At, pair.Timestamp.Time())
		}
		exporters = append(exporters, exporter)
	}
	return exporters, nil
}

// query returns the answer to a query. A warning means that it may lack series, which a bill must not.
func (s *prometheusSource) query(ctx context.Context, query string, start, end time.Time, step time.Duration) (model.Matrix, error) {
	value, warnings, err := s.api.QueryRange(ctx, query, promv1.Range{Start: start, End: end, Step: step})
	if err != nil {
		return nil, s.explain(err)
	}
	if len(warnings) > 0 {
		return nil, fmt.Errorf("%s warns that its answer may not be complete: %s", s.connection.name, output.Clean(strings.Join(warnings, "; ")))
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("%s has no API of Prometheus: it sent no matrix", s.connection.name)
	}
	return matrix, nil
}

// smallerQuestion is what helps if the answer is too large for Prometheus or for this program.
const smallerQuestion = "Select some of the series with --match, or ask for a shorter time"

// statusPattern finds the HTTP status in an error of the client.
var statusPattern = regexp.MustCompile(`\b([1-5][0-9]{2})$`)

// explain returns what is wrong and what would help.
func (s *prometheusSource) explain(err error) error {
	var answer *promv1.Error
	var request *url.Error
	name := s.connection.name
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errAnswerTooLarge):
		return fmt.Errorf("%w. %s", errAnswerTooLarge, smallerQuestion)
	case errors.As(err, &answer):
		return s.explainAnswer(answer)
	case errors.As(err, &request) && s.connection.usesService:
		return err // explainError names the API server
	case errors.As(err, &request) && request.Timeout():
		return fmt.Errorf("%s does not answer in time. %s", name, smallerQuestion)
	case errors.As(err, &request):
		return fmt.Errorf("%s does not answer: %s. Check --prometheus and the network", name, output.Clean(rootCause(request.Err)))
	default:
		return fmt.Errorf("the answer of %s cannot be read: %s", name, output.Clean(err.Error()))
	}
}

func (s *prometheusSource) explainAnswer(answer *promv1.Error) error {
	name, code := s.connection.name, ""
	if found := statusPattern.FindStringSubmatch(answer.Msg); found != nil {
		code = found[1]
	}
	var status metav1.Status
	if json.Unmarshal([]byte(answer.Detail), &status) == nil && status.Kind == "Status" {
		return explainProxyStatus(name, code, status.Message)
	}
	switch {
	case answer.Type == promv1.ErrExec || answer.Type == promv1.ErrTimeout:
		return fmt.Errorf("%s cannot answer: %s. %s", name, output.Clean(answer.Msg), smallerQuestion)
	case answer.Type == promv1.ErrBadData:
		return fmt.Errorf("%s refuses the query: %s. Check --match", name, output.Clean(answer.Msg))
	case code == "401" && !s.connection.usesService:
		return fmt.Errorf("%s wants other credentials (401): write --prometheus-token-file", name)
	case code == "403":
		return fmt.Errorf("%s does not allow you to query (403)", name)
	case code == "404" || answer.Type == promv1.ErrBadResponse:
		return fmt.Errorf("%s has no API of Prometheus: %s. Check the URL, also its path", name, output.Clean(answer.Msg))
	default:
		return fmt.Errorf("%s does not work: %s %.200s", name, output.Clean(answer.Msg), output.Clean(answer.Detail))
	}
}

// explainProxyStatus explains an answer of the API server, which did not reach Prometheus.
func explainProxyStatus(name, code, message string) error {
	refusal := errors.New(message)
	switch {
	case code == "401":
		return errors.New("the API server does not accept your credentials: log in again, or choose another --user")
	case forbiddenPattern.MatchString(message):
		return fmt.Errorf("%s: a Role with the verb get on services/proxy lets you, or kubectl port-forward and --prometheus", explainForbidden(refusal))
	default:
		return fmt.Errorf("the API server does not reach %s: %s", name, output.Clean(message))
	}
}
