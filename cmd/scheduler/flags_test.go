package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
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

// TestEveryFlagOfVolcanoKeepsItsDefaultExceptOurs: our scheduler replaces Volcano's image, with the arguments
// of its Deployment. So it has each flag of Volcano's scheduler, of Kubernetes' leader election, and two that
// Volcano's main function adds. Only three defaults differ: our scheduler serves health and metrics, and
// never uses Volcano's built-in configuration, which enforces no quotas.
func TestEveryFlagOfVolcanoKeepsItsDefaultExceptOurs(t *testing.T) {
	stock := pflag.NewFlagSet("stock", pflag.ContinueOnError)
	options.NewServerOption().AddFlags(stock)
	ours := pflag.NewFlagSet("ours", pflag.ContinueOnError)
	addFlags(ours)

	differ := map[string]string{}
	stock.VisitAll(func(flag *pflag.Flag) {
		own := ours.Lookup(flag.Name)
		check.Must(t, own != nil, "flag --%s is missing", flag.Name)
		if own.DefValue != flag.DefValue || own.Value.String() != flag.Value.String() {
			differ[flag.Name] = own.Value.String()
		}
	})

	check.Equal(t, "defaults that differ", map[string]string{
		"enable-healthz":                   "true",
		"enable-metrics":                   "true",
		"disable-default-scheduler-config": "true",
	}, differ)

	election := pflag.NewFlagSet("election", pflag.ContinueOnError)
	componentbaseoptions.BindLeaderElectionFlags(&componentbaseconfig.LeaderElectionConfiguration{}, election)

	election.VisitAll(func(flag *pflag.Flag) {
		check.That(t, ours.Lookup(flag.Name) != nil, "flag --%s is missing", flag.Name)
	})

	for _, name := range []string{"feature-gates", "log-flush-frequency"} {
		check.That(t, ours.Lookup(name) != nil, "flag --%s is missing", name)
	}
}

// TestFlagsDecideLeaseElectionAndHeartbeat: by default our scheduler elects its leader by the Lease of
// Volcano's own scheduler, so that only one of them schedules at a time. Pods of Volcano's scheduler are
// found by a label. Volcano's installer sets --leader-elect=false. It counts only outside of a cluster, where
// a kubeconfig or an address says which API server to use. The heartbeat is in the namespace of the ConfigMap
// that configures the scheduler, by default volcano-system. With a file instead of the ConfigMap it is in the
// namespace of the Lease. The times of the Lease are the same in each row.
func TestFlagsDecideLeaseElectionAndHeartbeat(t *testing.T) {
	defaults := map[string]string{
		"lease":                  "volcano-system/volcano",
		"elects a leader":        "true",
		"other schedulers":       "app=volcano-scheduler", // the label of their pods
		"namespace of heartbeat": "volcano-system",
	}

	for t, tc := range check.Cases(t, map[string]struct {
		args        []string
		wantChanged map[string]string // settings that are not the default
	}{
		"no flag": {},
		"another name of the scheduler, which decides none of these": {
			args: []string{"--scheduler-name=cards"},
		},
		"another Lease": {
			args:        []string{"--leader-elect-resource-namespace=a", "--leader-elect-resource-name=b"},
			wantChanged: map[string]string{"lease": "a/b"},
		},
		"the deprecated flag for the namespace of the Lease": {
			args:        []string{"--lock-object-namespace=c"},
			wantChanged: map[string]string{"lease": "c/volcano"},
		},
		"no election in a cluster: ignored": {
			args: []string{"--leader-elect=false"},
		},
		"no election with a kubeconfig": {
			args:        []string{"--leader-elect=false", "--kubeconfig=x"},
			wantChanged: map[string]string{"elects a leader": "false"},
		},
		"no election with the address of an API server": {
			args:        []string{"--leader-elect=false", "--master=x"},
			wantChanged: map[string]string{"elects a leader": "false"},
		},
		"other labels of other schedulers": {
			args:        []string{"--foreign-scheduler-selector=app in (a,b)"},
			wantChanged: map[string]string{"other schedulers": "app in (a,b)"},
		},
		"no label of other schedulers: they are not looked for": {
			args:        []string{"--foreign-scheduler-selector="},
			wantChanged: map[string]string{"other schedulers": ""},
		},
		"another ConfigMap, and the Lease in another namespace": {
			args:        []string{"--scheduler-configmap=a/conf", "--leader-elect-resource-namespace=b"},
			wantChanged: map[string]string{"lease": "b/volcano", "namespace of heartbeat": "a"},
		},
		"a file instead of the ConfigMap, and the Lease in another namespace": {
			args:        []string{"--scheduler-conf=/conf", "--scheduler-configmap=a/conf", "--leader-elect-resource-namespace=b"},
			wantChanged: map[string]string{"lease": "b/volcano", "namespace of heartbeat": "b"},
		},
	}) {
		f := parse(t, tc.args...)
		check.NoError(t, f.complete())

		election := f.volcano.LeaderElection
		got := map[string]string{
			"lease":                  election.ResourceNamespace + "/" + election.ResourceName,
			"elects a leader":        fmt.Sprint(election.LeaderElect),
			"other schedulers":       "",
			"namespace of heartbeat": f.heartbeatNamespace(),
		}
		if f.otherSchedulerSelector != nil {
			got["other schedulers"] = f.otherSchedulerSelector.String()
		}

		want := maps.Clone(defaults)
		maps.Copy(want, tc.wantChanged)
		check.Equal(t, "settings", want, got)
		check.Equal(t, "lease duration", 15*time.Second, election.LeaseDuration.Duration)
		check.Equal(t, "renew deadline", 10*time.Second, election.RenewDeadline.Duration)
		check.Equal(t, "retry period", 2*time.Second, election.RetryPeriod.Duration)
		check.That(t, options.ServerOpts == f.volcano, "Volcano does not know the options") // its code reads this variable
	}
}

// TestDefaultConfigurationCannotBeSwitchedOn: without a configuration Volcano would fall back to its default, which has
// no card quotas. So the scheduler ignores the flag that switches the default on, and the default stays disabled.
func TestDefaultConfigurationCannotBeSwitchedOn(t *testing.T) {
	f := parse(t, "--disable-default-scheduler-config=false")
	check.NoError(t, f.complete())
	check.Equal(t, "the default configuration is disabled", true, f.volcano.DisableDefaultSchedulerConfig)
}

// TestInvalidFlagsAreRefused: complete, which the scheduler calls at its start, returns an error that says what is
// wrong with a flag.
func TestInvalidFlagsAreRefused(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		args []string
		want string
	}{
		"a ConfigMap without namespace":                           {[]string{"--scheduler-configmap=conf"}, "--scheduler-configmap=conf: write namespace/name"},
		"a ConfigMap without name":                                {[]string{"--scheduler-configmap=a/"}, "write namespace/name"},
		"a ConfigMap with three parts":                            {[]string{"--scheduler-configmap=a/b/c"}, "write namespace/name"},
		"an empty key of the ConfigMap":                           {[]string{"--scheduler-configmap-key="}, "--scheduler-configmap-key is empty"},
		"a lease of 5 s, shorter than the renew deadline of 10 s": {[]string{"--leader-elect-lease-duration=5s"}, "leaderElection.leaseDuration"},
		"an invalid label selector":                               {[]string{"--foreign-scheduler-selector=app in"}, "--foreign-scheduler-selector=app in is no label selector"},
		"a certificate that does not exist":                       {[]string{"--ca-cert-file=x", "--tls-cert-file=x", "--tls-private-key-file=x"}, "read the serving certificate"},
	}) {
		check.Says(t, parse(t, tc.args...).complete(), tc.want)
	}
}

// TestOwnPodIsNamedByTheEnvironment: the Deployment puts the name of the pod into POD_NAME, by which the scheduler
// knows that its own pod is no other scheduler. Without it the scheduler takes the name of the host, which Kubernetes
// sets to the name of the pod.
func TestOwnPodIsNamedByTheEnvironment(t *testing.T) {
	t.Setenv("POD_NAME", "mine")
	check.Equal(t, "own pod", "mine", ownPodName())

	t.Setenv("POD_NAME", "")
	check.Equal(t, "own pod without POD_NAME", check.Value(os.Hostname())(t), ownPodName())
}

// TestVersionNamesVolcano: --version also says which version of Volcano is compiled in, because actions and other
// plugins are Volcano's, and administrators report both versions.
func TestVersionNamesVolcano(t *testing.T) {
	check.That(t, regexp.MustCompile(`, Volcano v\d+\.\d+\.\d+,`).MatchString(versionLine()), "no version of Volcano in %q", versionLine())
}

// TestVersionsOfCloudProvidersAreUnderstood: an API server states its version as major and minor, to which providers
// add "+" or a suffix. The scheduler needs "major.minor" to decide which APIs exist. The parser of versions panics on a
// "+" at the end, so the scheduler drops it. A suffix such as "-gke.100" ends with a digit and stays.
func TestVersionsOfCloudProvidersAreUnderstood(t *testing.T) {
	for _, tc := range []struct{ major, minor, want string }{
		{"1", "34", "1.34"},
		{"1", "34+", "1.34"},
		{"1", "34-gke.100", "1.34-gke.100"},
		{"1+", "34+", "1.34"},
	} {
		check.Equal(t, fmt.Sprintf("major %s, minor %s", tc.major, tc.minor), tc.want, majorMinor(tc.major, tc.minor))
	}
}
