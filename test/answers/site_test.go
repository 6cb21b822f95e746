package answers

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/cli"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/scheduler/simulator"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/framework"
)

var update = flag.Bool("update", false, "write the golden files from what the cluster answers")

// tenant is a user with the role edit in some namespaces, and no other right.
const tenant = "tina"

// How long an answer may take to become right, and how often the test asks.
const (
	soon  = 60 * time.Second
	often = 300 * time.Millisecond
	// settled is how long an answer stays the same before -update writes it.
	settled = 2 * time.Second
)

// site is a cluster on which the programs start one after the other.
type site struct {
	framework.Framework
	cluster    *cluster.Cluster
	deployment *deployment.Deployment
	// root is the folder of the project.
	root string
}

// newSite starts a cluster without Cardquota.
func newSite(t *testing.T, options cluster.Options) *site {
	g := gomega.NewWithT(check.Trail(t))
	root := check.Value(cluster.ModuleRoot())(t)

	c, err := cluster.Start(t.Context(), options)
	if errors.Is(err, cluster.ErrNotBuilt) {
		missing.Skip(t, err)
	}

	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { g.Expect(c.Stop()).To(gomega.Succeed()) })

	return &site{Framework: check.Value(framework.New(c.Config()))(t), cluster: c, root: root}
}

func newGomega(t *testing.T) *gomega.WithT {
	g := gomega.NewWithT(check.Trail(t))
	g.SetDefaultEventuallyTimeout(soon)
	g.SetDefaultEventuallyPollingInterval(often)
	return g
}

// create creates objects.
func (s *site) create(t *testing.T, objects ...client.Object) {
	for _, object := range objects {
		newGomega(t).Expect(s.Create(t.Context(), object)).To(gomega.Succeed(), "%T %s", object, object.GetName())
	}
}

// ask runs kubectl cardquota as the administrator, or as another user with --as.
func (s *site) ask(ctx context.Context, args ...string) (out, errOut string, code int) {
	var stdout, stderr bytes.Buffer
	streams := genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &stdout, ErrOut: &stderr}
	code = cli.Run(ctx, append([]string{"kubectl-cardquota", "--kubeconfig", s.cluster.Kubeconfig()}, args...), streams, simulator.New())
	return stdout.String(), stderr.String(), code
}

// summaryAge is how long a workload waits, in the paragraph that begins the answer of why.
var summaryAge = regexp.MustCompile(`\bfor (\d+[dhms])+ \(`)

// changing are parts of answers that differ between two runs in the same state.
var changing = []struct {
	pattern *regexp.Regexp
	shown   string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "<time>"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uid>"},
	{summaryAge, "for <age> ("},
	{regexp.MustCompile(`\bwas (\d+[dhms])+ ago`), "was <age> ago"},
	{regexp.MustCompile(`\b\d+ card-seconds of work`), "<number> card-seconds of work"},
	{regexp.MustCompile(`\bwaits-[0-9a-f]{6,10}-[0-9a-z]{5}\b`), "waits-<pod>"},
	{regexp.MustCompile(`(?m)(\d+[dhms])+ *$`), "<age>"},
}

// normalise replaces ages, times and uids, and joins the lines of a paragraph whose breaks depend on an
// age.
func normalise(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, paragraph := range paragraphs {
		command, rest, _ := strings.Cut(paragraph, "\n")
		if !strings.HasPrefix(command, "$ ") {
			command = ""
			rest = paragraph
		}
		if joined := strings.Join(strings.Fields(rest), " "); summaryAge.MatchString(joined) {
			paragraphs[i] = strings.TrimPrefix(command+"\n"+joined, "\n")
		}
	}

	text = strings.Join(paragraphs, "\n\n")
	for _, part := range changing {
		text = part.pattern.ReplaceAllString(text, part.shown)
	}

	return text
}

// compareGolden waits until an answer is that of a golden file. An empty answer is not ready.
func compareGolden(t *testing.T, name string, answer func() string) {
	path := filepath.Join("testdata", name+".golden")
	if *update {
		writeGolden(t, path, answer)
		return
	}
	want, err := os.ReadFile(path)
	g := newGomega(t)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Eventually(func() string { return normalise(answer()) }).Should(gomega.Equal(string(want)), "testdata/%s.golden", name)
}

// writeGolden writes an answer that no longer changes.
func writeGolden(t *testing.T, path string, answer func() string) {
	g := newGomega(t)
	last := ""

	since := time.Now()
	g.Eventually(func() bool {
		if got := normalise(answer()); got != last {
			last = got
			since = time.Now()
		}
		return last != "" && time.Since(since) > settled
	}).Should(gomega.BeTrue(), "the answer changes, or is empty: %s", path)
	g.Expect(os.MkdirAll(filepath.Dir(path), 0o750)).To(gomega.Succeed())
	g.Expect(os.WriteFile(path, []byte(last), 0o600)).To(gomega.Succeed())
}

// TestAnAnswerIsTheSameForAnAgeOfAnyLength: golden files are right in any run, although "9s" and "3h59m" break the lines
// of the first paragraph at other words. normalise replaces the age and joins the lines of that paragraph. The table
// below it, which says what the pod must pass (gates), stays as it is.
func TestAnAnswerIsTheSameForAnAgeOfAnyLength(t *testing.T) {
	answer := func(age string) string {
		return "$ kubectl cardquota why\n" + output.Indent("Pod crowd/waits waits for 1 NVIDIA-CROWD in queue crowd for "+age+" (QuotaExhausted): the quota of the queue is in use.", "", "") + "\nGATE   OPEN\nqueue  Yes\n"
	}
	want := "$ kubectl cardquota why\nPod crowd/waits waits for 1 NVIDIA-CROWD in queue crowd for <age> (QuotaExhausted): the quota of the queue is in use.\n\nGATE   OPEN\nqueue  Yes\n"
	for _, age := range []string{"9s", "12s", "2m1s", "3h59m"} {
		check.Equal(t, age, want, normalise(answer(age)))
	}
}
