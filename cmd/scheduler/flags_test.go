package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	componentbaseconfig "k8s.io/component-base/config"
	componentbaseoptions "k8s.io/component-base/config/options"
	"volcano.sh/volcano/cmd/scheduler/app/options"

	"cardquota.dev/operator/internal/testing/check"
)

func parse(t *testing.T, args ...string) *flags {
	set := pflag.NewFlagSet("scheduler", pflag.ContinueOnError)
	f := addFlags(set)
	check.NoError(t, set.Parse(args))
	return f
}

func TestEveryFlagOfVolcanoKeepsItsDefaultExceptOurs(t *testing.T) {
	stock := pflag.NewFlagSet("stock", pflag.ContinueOnError)
	options.NewServerOption().AddFlags(stock)
	ours := pflag.NewFlagSet("ours", pflag.ContinueOnError)
	addFlags(ours)

	differ := map[string]string{}
	stock.VisitAll(func(flag *pflag.Flag) {
		own := ours.Lookup(flag.Name)
		if own == nil {
			t.Errorf("flag --%s is missing", flag.Name)
			return
		}
		if own.DefValue != flag.DefValue || own.Value.String() != flag.Value.String() {
			differ[flag.Name] = own.Value.String()
		}
	})

	check.Equal(t, "defaults that differ", ourDefaults, differ)
	election := pflag.NewFlagSet("election", pflag.ContinueOnError)
	componentbaseoptions.BindLeaderElectionFlags(&componentbaseconfig.LeaderElectionConfiguration{}, election)

	election.VisitAll(func(flag *pflag.Flag) {
		check.That(t, ours.Lookup(flag.Name) != nil, "flag --%s is missing", flag.Name)
	})

	for _, name := range []string{"feature-gates", "log-flush-frequency"} {
		check.That(t, ours.Lookup(name) != nil, "flag --%s is missing", name)
	}
}

func TestWhatFlagsMean(t *testing.T) {
	lease := func(f *flags) string {
		return f.volcano.LeaderElection.ResourceNamespace + "/" + f.volcano.LeaderElection.ResourceName
	}

	elects := func(f *flags) string { return fmt.Sprint(f.volcano.LeaderElection.LeaderElect) }
	foreign := func(f *flags) string {
		if f.otherSchedulerSelector == nil {
			return "never looked for"
		}
		return f.otherSchedulerSelector.String()
	}

	beats := func(f *flags) string { return f.heartbeatNamespace() }
	for t, tc := range check.Cases(t, map[string]struct {
		args []string
		says func(*flags) string
		want string
	}{
		"the lease is that of the stock scheduler":                   {nil, lease, "volcano-system/volcano"},
		"the lease, whatever the scheduler's name is":                {[]string{"--scheduler-name=cards"}, lease, "volcano-system/volcano"},
		"the lease in another namespace":                             {[]string{"--leader-elect-resource-namespace=a", "--leader-elect-resource-name=b"}, lease, "a/b"},
		"the lease in the deprecated flag's namespace":               {[]string{"--lock-object-namespace=c"}, lease, "c/volcano"},
		"the election cannot be switched off in a cluster":           {[]string{"--leader-elect=false"}, elects, "true"}, // as Volcano's installer has it
		"the election by hand, with a kubeconfig":                    {[]string{"--leader-elect=false", "--kubeconfig=x"}, elects, "false"},
		"the election by hand, with an address":                      {[]string{"--leader-elect=false", "--master=x"}, elects, "false"},
		"foreign schedulers are found by label":                      {nil, foreign, "app=volcano-scheduler"},
		"foreign schedulers by other labels":                         {[]string{"--foreign-scheduler-selector=app in (a,b)"}, foreign, "app in (a,b)"},
		"foreign schedulers by no label":                             {[]string{"--foreign-scheduler-selector="}, foreign, "never looked for"},
		"the heartbeat lies beside the configuration":                {nil, beats, "volcano-system"},
		"the heartbeat beside another ConfigMap":                     {[]string{"--scheduler-configmap=a/conf", "--leader-elect-resource-namespace=b"}, beats, "a"},
		"the heartbeat beside the lease, as a file is configured by": {[]string{"--scheduler-conf=/conf", "--scheduler-configmap=a/conf", "--leader-elect-resource-namespace=b"}, beats, "b"},
	}) {
		f := parse(t, tc.args...)
		check.NoError(t, f.complete())
		check.Equal(t, "it", tc.want, tc.says(f))

		election := f.volcano.LeaderElection
		check.Equal(t, "times", [3]time.Duration{15 * time.Second, 10 * time.Second, 2 * time.Second},
			[3]time.Duration{election.LeaseDuration.Duration, election.RenewDeadline.Duration, election.RetryPeriod.Duration})
		check.That(t, options.ServerOpts == f.volcano, "Volcano does not know the options")
	}
}

func TestDefaultConfigurationCannotBeSwitchedOn(t *testing.T) {
	f := parse(t, "--disable-default-scheduler-config=false")
	check.NoError(t, f.complete())
	check.That(t, f.volcano.DisableDefaultSchedulerConfig, "Volcano would fall back to a configuration without card quotas")
}

func TestFlagsRefused(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		args []string
		want string
	}{
		"a ConfigMap without namespace":     {[]string{"--scheduler-configmap=conf"}, "--scheduler-configmap=conf: write namespace/name"},
		"a ConfigMap without name":          {[]string{"--scheduler-configmap=a/"}, "write namespace/name"},
		"a ConfigMap with three parts":      {[]string{"--scheduler-configmap=a/b/c"}, "write namespace/name"},
		"no key":                            {[]string{"--scheduler-configmap-key="}, "--scheduler-configmap-key is empty"},
		"a lease shorter than its deadline": {[]string{"--leader-elect-lease-duration=5s"}, "leaderElection.leaseDuration"},
		"a selector that is none":           {[]string{"--foreign-scheduler-selector=app in"}, "--foreign-scheduler-selector=app in is no label selector"},
		"a certificate that does not exist": {[]string{"--ca-cert-file=x", "--tls-cert-file=x", "--tls-private-key-file=x"}, "read the serving certificate"},
	}) {
		check.Says(t, parse(t, tc.args...).complete(), tc.want)
	}
}

func TestVersionNamesVolcano(t *testing.T) {
	line := versionLine()
	check.That(t, strings.Contains(line, "Volcano "), "version is %q", line)
}

func TestProvidersVersionsAreUnderstood(t *testing.T) {
	for parts, want := range map[[2]string]string{
		{"1", "34"}:         "1.34",
		{"1", "34+"}:        "1.34",
		{"1", "34-gke.100"}: "1.34-gke.100",
		{"1+", "34+"}:       "1.34",
	} {
		check.Equal(t, fmt.Sprintf("%v", parts), want, majorMinor(parts[0], parts[1]))
	}
}
