package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// runQuick runs the unit tests and the linter on the packages that changed since the merge
// base. It also runs the tests of packages that import them. Go's test cache skips tests whose
// inputs are unchanged. No test here needs a cluster.
func runQuick(ctx context.Context, p *project) (bool, error) {
	r, err := newRunner(p)
	if err != nil {
		return false, err
	}

	began := time.Now()
	files, base := p.changedFiles(ctx, 0)
	changed, affected := p.affectedPackages(files)
	if len(changed) == 0 {
		fmt.Printf("quick: no Go package has changed since %s\n", base)
		return true, nil
	}

	fmt.Printf("quick: since %s changed: %s\n", base, strings.Join(changed, " "))
	var outcomes []outcome
	lint := outcome{stage: stage{name: "lint"}}
	args := []string{"run"}
	for _, dir := range changed {
		args = append(args, "./"+dir)
	}

	linted := make(chan struct{})
	go func() {
		defer close(linted)
		r.runCommand(ctx, &lint, nil, "bin/golangci-lint", args...)
	}()

	if len(affected) > 0 {
		outcomes = append(outcomes, r.runStage(ctx, stage{name: "unit", packages: affected, timeout: 5 * time.Minute}))
	}

	<-linted
	outcomes = append(outcomes, lint)
	ok := true

	var results testResults
	for _, o := range outcomes {
		ok = ok && o.err == nil
		results.passed += o.results.passed
		results.failed += o.results.failed
		results.skipped = append(results.skipped, o.results.skipped...)
	}

	fmt.Printf("quick: %.0f s; %d passed, %d failed, %d skipped\n", time.Since(began).Seconds(), results.passed, results.failed, len(results.skipped))
	return ok, nil
}

// affectedPackages returns the packages with a changed file. It also returns the packages with
// tests that need no cluster, if their sources or those of an imported package have changed.
func (p *project) affectedPackages(files map[string]bool) (changed, affected []string) {
	holds := map[string]bool{}
	for dir, pkg := range p.packages {
		for _, file := range slices.Concat(pkg.sources, pkg.testSources, p.filesBelow(dir+"/testdata")) {
			if files[file] {
				holds[dir] = true
			}
		}
	}

	for dir, pkg := range p.packages {
		if pkg.cluster || len(pkg.testSources) == 0 {
			continue
		}
		if holds[dir] || slices.ContainsFunc(pkg.testDeps, func(dep string) bool {
			return dep != dir && slices.ContainsFunc(p.packages[dep].sourcesOrNone(), func(file string) bool { return files[file] })
		}) {
			affected = append(affected, dir)
		}
	}

	slices.Sort(affected)
	return slices.Sorted(maps.Keys(holds)), affected
}

func (p *goPackage) sourcesOrNone() []string {
	if p == nil {
		return nil
	}
	return p.sources
}
