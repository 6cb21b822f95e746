package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/test/cluster"
)

// output is a buffer that can be read while somebody writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func TestWrongArgumentsShowTheUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"none":             {},
		"an unknown verb":  {"down"},
		"an unknown flag":  {"up", "--fleets=x"},
		"a stray argument": {"up", "now"},
	} {
		t.Run(name, func(t *testing.T) {
			var out output
			if err := run(t.Context(), args, &out, &out); !errors.Is(err, errUsage) {
				t.Errorf("got %v, want a usage error", err)
			}
		})
	}
}

func TestUpSaysHowToTalkToTheClusterAndStopsAtTheEnd(t *testing.T) {
	g := NewWithT(t)
	root, err := cluster.ModuleRoot()
	g.Expect(err).NotTo(HaveOccurred())
	bin := root + "/bin/controlplane"
	if _, err := os.Stat(bin + "/etcd"); err != nil {
		t.Skipf("%s is skipped: %v", t.Name(), cluster.ErrNotBuilt)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	dir := t.TempDir()
	var out, progress output
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"up", "--dir", dir, "--bin", bin, "--fleet", root + "/test/cluster/fleets/mixed.yaml"}, &out, &progress)
	}()
	g.Eventually(out.String, "2m", "100ms").Should(ContainSubstring("export KUBECONFIG="+dir+"/kubeconfig"), progress.String)
	interrupt()
	g.Eventually(ended, "30s").Should(Receive(BeNil()))
	for _, want := range []string{"ready  component=etcd", "nodes ready  count=10", "cluster stopped"} {
		if !strings.Contains(progress.String(), want) {
			t.Errorf("progress lacks %q:\n%s", want, progress.String())
		}
	}
}
