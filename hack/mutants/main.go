// Command mutants measures whether the observer's rules notice wrong rules of the product. It
// breaks the product's rules one at a time, as the tables of this package list them, and runs
// the differential test against each. Rules that the observer does not have, such as the order of
// queues, have tests in their own packages, which run instead. It does not change the tree:
// `go test -overlay` replaces the file.
//
//	make mutants            all mutants
//	make mutants RUN=queue  those whose file or rule matches
//
// It fails when less than 90 % of the mutants are caught, when a mutant does not compile, and
// when its text does not occur exactly once.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// differentialTest is the package whose tests compare the product with the observer's rules.
const differentialTest = "./test/observer/differential"

// minCaughtPercent is the smallest allowed share of caught mutants.
const minCaughtPercent = 90

// mutant is one wrong rule of the product.
type mutant struct {
	// file is relative to the root of the module.
	file string
	// old occurs exactly once in the file, and new replaces it.
	old, new string
	// breaks is the rule that is no longer true.
	breaks string
}

// table has mutants that the same tests must notice.
type table struct {
	// tests is the package of the tests. run selects some of them, as go test's flag does.
	tests, run string
	mutants    []mutant
}

// trial is one mutant and its table.
type trial struct {
	mutant
	*table
}

// trialsMatching returns a trial for each mutant whose file or rule matches.
func trialsMatching(pattern *regexp.Regexp) (trials []trial) {
	for i := range tables {
		for _, m := range tables[i].mutants {
			if pattern.MatchString(m.file + " " + m.breaks) {
				trials = append(trials, trial{m, &tables[i]})
			}
		}
	}
	return trials
}

func main() {
	only := flag.String("run", "", "run the mutants whose file or rule matches this regular expression")
	parallel := flag.Int("parallel", 2, "how many mutants run at the same time")
	flag.Parse()
	if err := run(*only, *parallel); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(only string, parallel int) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}

	scratch, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	began := time.Now()

	chosen := trialsMatching(pattern)
	passes := map[*table]bool{}
	for _, c := range chosen {
		if passes[c.table] {
			continue
		}
		if output, err := c.runTests(context.Background(), ""); err != nil {
			return fmt.Errorf("the tests of %s fail without any mutant: %w\n%s", c.tests, err, output)
		}
		passes[c.table] = true
	}

	survivors, err := tryMutants(chosen, scratch, parallel)
	if err != nil {
		return err
	}

	caught := len(chosen) - len(survivors)
	fmt.Printf("mutants: %d of %d caught (%d %%) in %s\n", caught, len(chosen), 100*caught/max(1, len(chosen)), time.Since(began).Round(time.Second))
	for _, m := range survivors {
		fmt.Printf("survived: %s: %s\n", m.file, m.breaks)
	}

	if 100*caught < minCaughtPercent*len(chosen) {
		return fmt.Errorf("less than %d %% of the mutants are caught", minCaughtPercent)
	}

	return nil
}

// tryMutants runs the tests against every mutant and returns the mutants that pass.
func tryMutants(chosen []trial, scratch string, parallel int) ([]mutant, error) {
	var mu sync.Mutex
	survived := make([]bool, len(chosen))
	done := 0

	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(parallel)
	for i, m := range chosen {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			overlay, err := m.writeOverlay(filepath.Join(scratch, fmt.Sprint(i)))
			if err != nil {
				return fmt.Errorf("%s: %s: %w", m.file, m.breaks, err)
			}

			output, err := m.runTests(ctx, overlay)
			if strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]") {
				return fmt.Errorf("%s: %s: does not compile:\n%s", m.file, m.breaks, output)
			}

			mu.Lock()
			defer mu.Unlock()

			done++
			verdict := "caught"

			survived[i] = err == nil
			if survived[i] {
				verdict = "SURVIVED"
			}

			fmt.Printf("%3d/%d %-8s %-32s %s\n", done, len(chosen), verdict, m.file, m.breaks)
			return ctx.Err()
		})
	}

	err := group.Wait()
	var survivors []mutant
	for i, m := range chosen {
		if survived[i] {
			survivors = append(survivors, m.mutant)
		}
	}

	return survivors, err
}

// moduleRoot returns the folder of the module in which the program runs.
func moduleRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
	}
	return "", errors.New("run it in the project")
}

// brokenContent returns the path of the file and its broken content.
func (m mutant) brokenContent(root string) (file, content string, err error) {
	file = filepath.Join(root, m.file)
	bytes, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	if n := strings.Count(string(bytes), m.old); n != 1 {
		return "", "", fmt.Errorf("its text stands %d times in the file, not once: %s", n, m.old)
	}
	return file, strings.Replace(string(bytes), m.old, m.new, 1), nil
}

// writeOverlay writes the broken file and the overlay that replaces the real one.
func (m mutant) writeOverlay(folder string) (overlay string, err error) {
	top, err := moduleRoot()
	if err != nil {
		return "", err
	}

	file, content, err := m.brokenContent(top)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}

	broken := filepath.Join(folder, filepath.Base(file))
	if err := os.WriteFile(broken, []byte(content), 0o644); err != nil {
		return "", err
	}

	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: broken}})
	if err != nil {
		return "", err
	}

	overlay = filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, replace, 0o644)
}

// usesRapid reports whether the tests of a table draw random input.
func (t *table) usesRapid() bool {
	root, err := moduleRoot()
	if err != nil {
		return false
	}
	files, _ := filepath.Glob(filepath.Join(root, t.tests, "*_test.go"))
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && (strings.Contains(string(text), `"pgregory.net/rapid"`) || strings.Contains(string(text), `/internal/testing/seed"`))
	})
}

// runTests runs the tests of a table until the first failure. All mutants use one seed unless
// SEED sets another.
func (t *table) runTests(ctx context.Context, overlay string) (output string, err error) {
	args := []string{"test", "-vet=off", "-count=1", "-failfast", "-timeout=3m", "-ldflags=-s -w", "-run=" + t.run}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}

	args = append(args, t.tests)
	if t.usesRapid() { // no other test knows these flags
		args = append(args, "-rapid.nofailfile", "-rapid.shrinktime=1ms")
	}

	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append([]string{"SEED=1"}, os.Environ()...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
