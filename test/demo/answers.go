package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// rushFile is the service that the fourth act simulates, and then creates.
var rushFile = filepath.Join("test", "demo", "workloads", "rush.yaml")

// exitWaits is the exit code of kubectl cardquota why if the workload waits.
const exitWaits = 2

// findPlugin puts the folder of kubectl-cardquota on the PATH, where kubectl looks for plugins.
func findPlugin(root string) error {
	return os.Setenv("PATH", pluginFolder(root)+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func pluginFolder(root string) string { return filepath.Join(root, "bin") }

func (g *tour) showUsage() {
	g.Headline("Fourth act: one command for each question", "Who uses what? The bars show used cards, and borrowed ones as +.")
	g.showKubectl("cardquota", "top")
}

func (g *tour) explainWaiting() {
	g.Headline("Why does it wait?", "A tenant asks for the service of chapter 4. The answer names each gate, who holds the cards, and what would help.")
	g.runStep(func() error {
		err := g.ShowKubectl(g.ctx, "cardquota", "why", "deployment/reranker")
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == exitWaits {
			return nil
		}
		return errors.Join(errors.New("kubectl cardquota why: the exit code must say that the service waits"), err)
	})
}

func (g *tour) showInventory() {
	g.Headline("Which cards exist?", "EXCESS shows by how much the quotas of a card exceed its healthy cards.")
	g.showKubectl("cardquota", "inventory")
}

func (g *tour) simulateService() {
	g.Headline("What would happen?", "The scheduler's own code, on a snapshot of the cluster: where would a new service run, and whom would it displace?")
	g.runStep(func() error {
		return g.ShowKubectlAs(g.ctx, "cardquota whatif -f "+rushFile, "cardquota", "whatif", "-f", filepath.Join(g.root, rushFile))
	})
}

// keepPromise creates the service and checks that it displaces what the simulation named.
func (g *tour) keepPromise() {
	g.Headline("And it does", "The service is created. The same gang is evicted, and nothing else.")
	var displaced string
	g.runStep(func() (err error) {
		out, err := g.Cluster.Kubectl(g.ctx, "cardquota", "whatif", "-f", filepath.Join(g.root, rushFile), "-o", "json")
		if err != nil {
			return err
		}
		displaced, err = findDisplaced(out)
		return err
	})

	g.applyFiles(rushFile)
	g.waitForRunning("app=captioner", 4)
	g.showKubectl("get", "pods", "-l", "app in (captioner, detector, segmenter)", "--sort-by=.metadata.name", "-o", holderColumns)
	g.checkOneGangRuns(gangSelector)

	g.runStep(func() error {
		running, err := g.runningApps("app=" + displaced)
		if err == nil && len(running) > 0 {
			err = fmt.Errorf("whatif named %s, but %d of its pods run", displaced, len(running))
		}
		return err
	})
}

// showCardHours waits until the operator has stored sums, which it does every 30 seconds.
func (g *tour) showCardHours() {
	g.Headline("What did each tenant use?", "The operator sums up card-hours by day and month. With a file of prices the report is a bill.")
	g.runStep(func() error {
		return wait.PollUntilContextTimeout(g.ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			out, err := g.Cluster.Kubectl(ctx, "cardquota", "report", "--tenant", "llm", "-o", "csv")
			return strings.Count(out, "\n") > 1, err
		})
	})
	g.showKubectl("cardquota", "report")
}

// findDisplaced returns the name of the only job that a simulation displaces.
func findDisplaced(out string) (string, error) {
	var result struct {
		Runs    bool `json:"runs"`
		Victims []struct {
			Workload struct {
				Name string `json:"name"`
			} `json:"workload"`
		} `json:"victims"`
	}

	if err := json.Unmarshal([]byte(out), &result); err != nil {
		return "", err
	}
	if !result.Runs || len(result.Victims) != 1 {
		return "", errors.New("the service must run and displace one job, but whatif says: " + out)
	}

	return result.Victims[0].Workload.Name, nil
}
