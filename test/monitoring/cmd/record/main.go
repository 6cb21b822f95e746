// Command record plays the day of test/monitoring with a pause after each scene, and writes what
// Prometheus answers to every query of every board, as JSON for hack/pictures.
//
//	record -out dist/pictures/answers.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"cardquota.dev/operator/test/bench/harness"
	"cardquota.dev/operator/test/monitoring"
)

func main() {
	out := flag.String("out", "", "the file to write")
	pause := flag.Duration("pause", 25*time.Second, "how long each scene lasts after what it brings about")
	tenant := flag.String("tenant", "lab", "the tenant whose board is shown")
	harness.RunMain("record", func(ctx context.Context) error { return recordDay(ctx, *out, *tenant, *pause) })
}

func recordDay(ctx context.Context, out, tenant string, pause time.Duration) (err error) {
	fmt.Println("record: starting a cluster, the operator and Prometheus")
	e, err := monitoring.Start(ctx, time.Second)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Stop()) }()

	var from time.Time
	for i, scene := range monitoring.Day {
		fmt.Println("record:", scene.Name)
		if i == 1 { // before it no scheduler runs
			from = time.Now()
		}

		if err := e.Play(ctx, scene); err != nil {
			return err
		}

		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	answers, err := e.Record(ctx, tenant, from, time.Now())
	if err != nil {
		return err
	}

	text, err := json.Marshal(answers)
	if err != nil {
		return fmt.Errorf("answers: %w", err)
	}
	if err := os.WriteFile(out, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("answers: %w", err)
	}

	fmt.Println("record: wrote", out)
	return nil
}
