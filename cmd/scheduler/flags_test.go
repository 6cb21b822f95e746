package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	componentbaseconfig "k8s.io/component-base/config"
	componentbaseoptions "k8s.io/component-base/config/options"
	"volcano.sh/volcano/cmd/scheduler/app/options"
)

func parse(t *testing.T, args ...string) *flags {
	t.Helper()
	set := pflag.NewFlagSet("scheduler", pflag.ContinueOnError)
	f := addFlags(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
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
	if diff := cmp.Diff(ourDefaults, differ); diff != "" {
		t.Errorf("defaults that differ (-want +got):\n%s", diff)
	}
	election := pflag.NewFlagSet("election", pflag.ContinueOnError)
	componentbaseoptions.BindLeaderElectionFlags(&componentbaseconfig.LeaderElectionConfiguration{}, election)
	election.VisitAll(func(flag *pflag.Flag) {
		if ours.Lookup(flag.Name) == nil {
			t.Errorf("flag --%s is missing", flag.Name)
		}
	})
	for _, name := range []string{"feature-gates", "log-flush-frequency"} {
		if ours.Lookup(name) == nil {
			t.Errorf("flag --%s is missing", name)
		}
	}
}

func TestLeaseIsThatOfTheStockScheduler(t *testing.T) {
	for name, tc := range map[string]struct {
		args      []string
		wantLease string
	}{
		"by default":                       {nil, "volcano-system/volcano"},
		"whatever the scheduler's name is": {[]string{"--scheduler-name=cards"}, "volcano-system/volcano"},
		"in another namespace":             {[]string{"--leader-elect-resource-namespace=a", "--leader-elect-resource-name=b"}, "a/b"},
		"in the deprecated flag's one":     {[]string{"--lock-object-namespace=c"}, "c/volcano"},
	} {
		t.Run(name, func(t *testing.T) {
			f := parse(t, tc.args...)
			if err := f.complete(); err != nil {
				t.Fatal(err)
			}
			election := f.volcano.LeaderElection
			if got := election.ResourceNamespace + "/" + election.ResourceName; got != tc.wantLease {
				t.Errorf("lease is %s, want %s", got, tc.wantLease)
			}
			if !election.LeaderElect || election.LeaseDuration.Duration != 15*time.Second ||
				election.RenewDeadline.Duration != 10*time.Second || election.RetryPeriod.Duration != 2*time.Second {
				t.Errorf("election is %+v", election)
			}
			if options.ServerOpts != f.volcano {
				t.Error("Volcano does not know the options")
			}
		})
	}
}

func TestDefaultConfigurationCannotBeSwitchedOn(t *testing.T) {
	f := parse(t, "--disable-default-scheduler-config=false")
	if err := f.complete(); err != nil {
		t.Fatal(err)
	}
	if !f.volcano.DisableDefaultSchedulerConfig {
		t.Error("Volcano would fall back to a configuration without card quotas")
	}
}

func TestElectionCannotBeSwitchedOffInACluster(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want bool
	}{
		"as Volcano's installer has it": {[]string{"--leader-elect=false"}, true},
		"by hand, with a kubeconfig":    {[]string{"--leader-elect=false", "--kubeconfig=x"}, false},
		"by hand, with an address":      {[]string{"--leader-elect=false", "--master=x"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := parse(t, tc.args...)
			if err := f.complete(); err != nil {
				t.Fatal(err)
			}
			if got := f.volcano.LeaderElection.LeaderElect; got != tc.want {
				t.Errorf("elects: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestFlagsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
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
	} {
		t.Run(name, func(t *testing.T) {
			err := parse(t, tc.args...).complete()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want …%s…", err, tc.want)
			}
		})
	}
}

func TestForeignSchedulersAreFoundByLabel(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"by default":    {nil, "app=volcano-scheduler"},
		"by other ones": {[]string{"--foreign-scheduler-selector=app in (a,b)"}, "app in (a,b)"},
		"never":         {[]string{"--foreign-scheduler-selector="}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := parse(t, tc.args...)
			if err := f.complete(); err != nil {
				t.Fatal(err)
			}
			got := ""
			if f.foreign != nil {
				got = f.foreign.String()
			}
			if got != tc.want {
				t.Errorf("selector is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestHeartbeatLiesBesideTheConfiguration(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"by default":                   {nil, "volcano-system"},
		"beside another ConfigMap":     {[]string{"--scheduler-configmap=a/conf", "--leader-elect-resource-namespace=b"}, "a"},
		"with a file beside the lease": {[]string{"--scheduler-conf=/conf", "--scheduler-configmap=a/conf", "--leader-elect-resource-namespace=b"}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			f := parse(t, tc.args...)
			if err := f.complete(); err != nil {
				t.Fatal(err)
			}
			if got := f.heartbeatNamespace(); got != tc.want {
				t.Errorf("namespace is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestVersionNamesVolcano(t *testing.T) {
	if line := versionLine(); !strings.Contains(line, "Volcano ") {
		t.Errorf("version is %q", line)
	}
}

func TestProvidersVersionsAreUnderstood(t *testing.T) {
	for parts, want := range map[[2]string]string{
		{"1", "34"}:         "1.34",
		{"1", "34+"}:        "1.34",
		{"1", "34-gke.100"}: "1.34-gke.100",
		{"1+", "34+"}:       "1.34",
	} {
		if got := majorMinor(parts[0], parts[1]); got != want {
			t.Errorf("%v is %s, want %s", parts, got, want)
		}
	}
}
