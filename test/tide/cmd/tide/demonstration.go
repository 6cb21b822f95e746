package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cardquota.dev/operator/test/bench/harness"
	"cardquota.dev/operator/test/tide"
)

// demonstration shows how inference reclaims cards and returns them, and records what failed.
type demonstration struct {
	nodes, flood, gang int

	harness.Narrator
	env      *tide.Env
	failures []error
}

func (s *demonstration) playChapters(ctx context.Context) error {
	for _, chapter := range []func(context.Context) error{s.createPolicy, s.fillWithTraining, s.reclaimForDeployment, s.returnToTraining, s.reclaimForGang, s.returnToTraining} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *demonstration) createPolicy(ctx context.Context) error {
	s.Headline("Who may reclaim from whom", "A ServiceTypePolicy with an empty spec: inference reclaims cards from training. The operator writes it into the scheduler's configuration, and the scheduler reports which configuration it uses.")
	if err := s.env.CreatePolicy(ctx); err != nil {
		return err
	}
	return s.ShowKubectl(ctx, "get", "stp")
}

func (s *demonstration) fillWithTraining(ctx context.Context) error {
	s.Headline("Training holds all cards", fmt.Sprintf("%d training gangs of %d pods with one card each hold all %d cards, scattered over the nodes.", s.nodes, harness.GangSize, s.totalCards()))
	return s.printUsageDuring(func() error { return s.env.FillWithTraining(ctx) })
}

func (s *demonstration) reclaimForDeployment(ctx context.Context) error {
	s.Headline("Inference reclaims cards", fmt.Sprintf("A Deployment of inference with %d replicas. No card is free, so whole gangs are evicted: those that lose least.", s.flood))
	scene, err := s.watchScene(func() (*tide.Result, error) { return s.env.ServeDeployments(ctx, "chat", 1, s.flood) })
	if err != nil {
		return err
	}
	s.printResult(scene, fmt.Sprintf("all %d pods bound", scene.Pods), scene.BoundAfter(), tide.MaxBoundAfter)
	return s.showEvents(ctx)
}

func (s *demonstration) reclaimForGang(ctx context.Context) error {
	s.Headline("A large gang", fmt.Sprintf("A model that is served by %d pods together: all of them get cards, or no pod is evicted.", s.gang))
	scene, err := s.watchScene(func() (*tide.Result, error) { return s.env.ServeGang(ctx, s.gang) })
	if err != nil {
		return err
	}
	s.printResult(scene, fmt.Sprintf("all %d pods running", scene.Pods), scene.RunningAfter(), tide.MaxGangRunningAfter)
	return nil
}

func (s *demonstration) returnToTraining(ctx context.Context) error {
	s.Headline("Training returns", "Inference stops. The gangs wait for their cards, and restart by themselves.")
	var back *tide.Return
	err := s.printUsageDuring(func() (err error) {
		back, err = s.env.ReturnToTraining(ctx)
		return err
	})
	if err != nil {
		return err
	}

	fmt.Printf("\n  All %d gangs run again %.1f s after inference stopped.\n", s.nodes, back.After.Seconds())
	if len(back.Stuck) > 0 {
		s.recordFailure("%d gangs did not restart by themselves: %s", len(back.Stuck), strings.Join(back.Stuck, ", "))
	}

	return nil
}

// showEvents shows the events of the evicted and of the reclaiming workloads.
func (s *demonstration) showEvents(ctx context.Context) error {
	fmt.Println("\n  The event of an evicted gang, and that of the reclaiming pods:")
	for _, reason := range []string{"CardsReclaimed", "ReclaimsCards"} {
		out, err := s.Cluster.Kubectl(ctx, "get", "events", "--field-selector=reason="+reason, "-o", `jsonpath={range .items[*]}{.involvedObject.kind}/{.involvedObject.name}: {.message}{"\n"}{end}`)
		if err != nil {
			return err
		}

		first, _, _ := strings.Cut(out, "\n")
		if first == "" {
			s.recordFailure("no event %s was written", reason)
		}
		fmt.Printf("    %s %s\n", reason, first)
	}

	return nil
}

// printResult prints the results of a scene beside their limits, and checks them.
func (s *demonstration) printResult(scene *tide.Result, what string, after, limit time.Duration) {
	l := scene.Loss
	fmt.Println()
	row := func(name, value, bound string) { fmt.Printf("  %-34s %12s   %s\n", name, value, bound) }
	row(what+" after", fmt.Sprintf("%.1f s", after.Seconds()), fmt.Sprintf("at most %.0f s", limit.Seconds()))
	row("gangs broken", fmt.Sprint(l.Gangs), fmt.Sprintf("at least %d", l.Least))
	row("card-seconds of work lost", fmt.Sprintf("%.0f", l.CardSeconds), "")
	row("gangs left running in part", fmt.Sprint(l.Partial), "none")
	row("retries counted against jobs", fmt.Sprint(l.Retries), "none")

	for _, fault := range scene.Violations() {
		s.recordFailure("%s", fault)
	}
	if late := tide.LateMessage(what, after, limit); late != "" {
		s.recordFailure("%s", late)
	}
}

func (s *demonstration) watchScene(play func() (*tide.Result, error)) (scene *tide.Result, err error) {
	err = s.printUsageDuring(func() error {
		scene, err = play()
		return err
	})
	return scene, err
}

// printUsageDuring prints every two seconds which pods use the cards, while they change.
func (s *demonstration) printUsageDuring(do func() error) error {
	fmt.Printf("\n  %6s %16s %18s %10s\n", "after", "gangs running", "inference bound", "cards free")
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- do() }()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()

	last := harness.Usage{Gangs: -1}
	line := func() {
		now := s.env.Pods.Usage()
		if now != last {
			fmt.Printf("  %4.0f s %16d %18d %10d\n", time.Since(began).Seconds(), now.Gangs, now.Inference, s.totalCards()-now.Cards)
		}
		last = now
	}

	line()
	for {
		select {
		case err := <-done:
			line()
			return err
		case <-tick.C:
			line()
		}
	}
}

func (s *demonstration) recordFailure(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	fmt.Println("  FAILED:", err)
	s.failures = append(s.failures, err)
}

func (s *demonstration) totalCards() int { return s.nodes * harness.GangSize }
