package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// runQuick runs the unit tests and the linter on the packages that changed since the merge
// base with main. It also runs the tests of packages that import them. No test here needs a
// cluster.
func runQuick(ctx context.Context, p *project) (bool, error) {
	began := time.Now()
	base := "HEAD"
	for _, branch := range []string{"main", "origin/main"} {
		if text, err := runOutput(ctx, p.root, "git", "merge-base", "HEAD", branch); err == nil {
			base = text
		}
	}

	files, err := p.changedFiles(ctx, base)
	if err != nil {
		return false, err
	}

	changed, affected := p.affectedPackages(files)
	if len(changed) == 0 {
		fmt.Println("quick: no Go package has changed since", base)
		return true, nil
	}

	fmt.Printf("quick: since %s changed: %s\n", base, strings.Join(changed, " "))
	lint := outcome{stage: stage{name: "lint"}}
	args := []string{"run"}
	for _, dir := range changed {
		args = append(args, "./"+dir)
	}

	var linting sync.WaitGroup
	linting.Go(func() { lint.runCommand(ctx, p.root, nil, nil, "bin/golangci-lint", args...) })
	var unit outcome
	if len(affected) > 0 {
		unit = p.runStage(ctx, stage{name: "quick", packages: affected, timeout: 5 * time.Minute})
	}

	linting.Wait()
	r := unit.results
	fmt.Printf("quick: %.0f s; %d passed, %d failed, %d skipped\n", time.Since(began).Seconds(), r.passed, r.failed, len(r.skipped))
	return (unit.err == nil) && (lint.err == nil), nil
}

// affectedPackages returns the packages with a changed file, and the packages whose tests need
// no cluster and depend on one of these.
func (p *project) affectedPackages(files []string) (changed, affected []string) {
	has := map[string]bool{}
	for _, file := range files {
		if dir := p.packageOf(file); dir != "" {
			has[dir] = true
		}
	}

	for dir, pkg := range p.packages {
		if !pkg.cluster && slices.ContainsFunc(pkg.testDeps, func(dep string) bool { return has[dep] }) {
			affected = append(affected, dir)
		}
	}

	slices.Sort(affected)
	return slices.Sorted(maps.Keys(has)), affected
}
