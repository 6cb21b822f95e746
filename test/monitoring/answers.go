package monitoring

import (
	"context"
	"time"

	"github.com/prometheus/common/model"
)

// Recording is what Prometheus answered to every query of every board. hack/pictures draws it.
type Recording struct {
	// From and To are the shown time.
	From, To time.Time
	// Interval is the time between two values, in seconds.
	Interval float64
	Boards   []Board
}

// Record asks every query of every board and keeps the answers with the queries. Boards that have a
// choice of tenants show one.
func (e *Env) Record(ctx context.Context, tenant string, from, to time.Time) (*Recording, error) {
	boards, err := ReadBoards(e.Root)
	if err != nil {
		return nil, err
	}

	for _, board := range boards {
		for _, panel := range board.Panels {
			for i := range panel.Targets {
				target := &panel.Targets[i]
				target.Answer, err = e.Prometheus.AskTarget(ctx, *target, tenant, from, to)
				if err != nil {
					return nil, err
				}
			}
		}
	}

	return &Recording{From: from, To: to, Interval: e.Prometheus.Interval.Seconds(), Boards: boards}, nil
}

// AskTarget returns the series that a query of a board has. A query for one time has the end of the
// shown time.
func (p *Prometheus) AskTarget(ctx context.Context, target Target, tenant string, from, to time.Time) (model.Matrix, error) {
	query := ReplaceVariables(target.Expr, tenant, p.Interval, to.Sub(from))
	if !target.Instant {
		return p.AskRange(ctx, query, from, to)
	}
	vector, err := p.Ask(ctx, query, to)
	var matrix model.Matrix
	for _, sample := range vector {
		matrix = append(matrix, &model.SampleStream{Metric: sample.Metric, Values: []model.SamplePair{{Timestamp: sample.Timestamp, Value: sample.Value}}})
	}
	return matrix, err
}
