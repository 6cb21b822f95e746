package main

import (
	"bytes"
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"cardquota.dev/operator/test/deployment"
)

// scrapeInterval is how often Prometheus reads the metrics of a program, unless it is configured
// otherwise.
const scrapeInterval = 30 * time.Second

// scrape is what one read of the metrics cost.
type scrape struct {
	took          time.Duration
	series, bytes int
}

// scraper reads the metrics of the operator as Prometheus does.
type scraper struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	// Only the reader uses these until it has ended.
	scrapes []scrape
	failed  []error
}

// readMetrics reads the metrics once.
type readMetrics func(ctx context.Context) (deployment.ProgramMetrics, error)

// startScraper reads as soon as the operator answers, and then regularly until stop or the end of ctx.
func startScraper(ctx context.Context, read readMetrics) *scraper {
	ctx, cancel := context.WithCancel(ctx)
	s := &scraper{cancel: cancel}

	s.done.Go(func() {
		_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, scrapeInterval, true, func(ctx context.Context) (bool, error) {
			_, err := read(ctx)
			return err == nil, nil
		}) // what goes on to fail is counted

		pace := time.NewTicker(scrapeInterval)
		defer pace.Stop()

		for {
			s.scrapeOnce(ctx, read)
			select {
			case <-ctx.Done():
				return
			case <-pace.C:
			}
		}
	})
	return s
}

func (s *scraper) scrapeOnce(ctx context.Context, read readMetrics) {
	metrics, err := read(ctx)
	switch {
	case ctx.Err() != nil: // it was stopped
	case err != nil:
		s.failed = append(s.failed, err)
	default:
		s.scrapes = append(s.scrapes, scrape{metrics.Answered.Sub(metrics.Asked), countSeries(metrics.Page), len(metrics.Page)})
	}
}

// stop returns what the scrapes cost, and those that failed.
func (s *scraper) stop() ([]scrape, []error) {
	s.cancel()
	s.done.Wait()
	return s.scrapes, s.failed
}

// countSeries counts the lines that are no comments.
func countSeries(page []byte) int {
	return bytes.Count(page, []byte("\n")) - bytes.Count(page, []byte("\n#")) - min(1, bytes.Count(page[:min(1, len(page))], []byte("#")))
}
