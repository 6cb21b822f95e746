package main

import (
	"cmp"
	"flag"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"cardquota.dev/operator/internal/workload"
)

// flags are the command line.
type flags struct {
	metricsAddress, probeAddress string
	// pprofAddress serves Go's profiles, "0" to serve none.
	pprofAddress string
	// secureMetrics serves metrics over TLS, and only to authorized readers.
	secureMetrics bool
	leaderElect   bool
	// operatorNamespace is the operator's own.
	operatorNamespace string
	// schedulerNamespace is that of our scheduler, its ConfigMap and its Leases.
	schedulerNamespace string
	// volcanoNamespace is that of Volcano's own programs.
	volcanoNamespace string
	qps              float64
	certificates     certificateSource
	webhookPort      int
	webhookCertDir   string
	// webhookClientCA is a file, "" to accept clients without a certificate.
	webhookClientCA string
	logging         zap.Options
}

// certificateSource is where the certificate of the webhook server comes from.
type certificateSource string

// The values of --webhook-certificates.
const (
	// certificatesSelf: the operator signs it and keeps it in a Secret.
	certificatesSelf certificateSource = "Self"
	// certificatesFiles: cert-manager or OLM writes it to --webhook-cert-dir.
	certificatesFiles certificateSource = "Files"
	// certificatesOff: there is no webhook server.
	certificatesOff certificateSource = "Off"
)

// Set and String make it a flag.
func (c *certificateSource) Set(text string) error {
	switch value := certificateSource(text); value {
	case certificatesSelf, certificatesFiles, certificatesOff:
		*c = value
		return nil
	}
	return fmt.Errorf("write %s, %s or %s", certificatesSelf, certificatesFiles, certificatesOff)
}

func (c *certificateSource) String() string { return string(*c) }

// parseFlags reads the command line, sets what depends on other flags, and refuses what it cannot use.
func parseFlags(args []string) (flags, error) {
	f := flags{certificates: certificatesOff}
	set := flag.NewFlagSet("cardquota-manager", flag.ContinueOnError)
	set.StringVar(&f.metricsAddress, "metrics-bind-address", ":8080", "The address that serves /metrics; 0 serves none.")
	set.BoolVar(&f.secureMetrics, "secure-metrics", false,
		"Serve --metrics-bind-address over TLS, and only to readers whose token may get the path (TokenReview, SubjectAccessReview).")

	set.StringVar(&f.probeAddress, "health-probe-bind-address", ":8081", "The address that serves /healthz and /readyz.")
	set.StringVar(&f.pprofAddress, "pprof-bind-address", "0", "The address that serves Go's profiles under /debug/pprof, for example 127.0.0.1:6060; 0 serves none.")
	set.BoolVar(&f.leaderElect, "leader-elect", true, "Work only while holding the leader Lease, so that several replicas can run.")
	set.StringVar(&f.operatorNamespace, "leader-elect-namespace", "volcano-system",
		"The operator's own namespace: of the leader Lease, and of the Secret and the Service of the webhooks.")

	set.StringVar(&f.schedulerNamespace, "scheduler-namespace", "",
		"The namespace of cardquota-scheduler: of the ConfigMap that is rendered for it, and of its Leases. The operator's own when not set.")
	set.StringVar(&f.volcanoNamespace, "volcano-namespace", workload.StockSchedulerNamespace,
		"The namespace of Volcano's own programs: of the ConfigMap that the policy is merged with, unless it names another, and of the stock scheduler.")

	set.Float64Var(&f.qps, "kube-api-qps", 500, "Requests per second to the API server; bursts may be twice as many.")
	set.Var(&f.certificates, "webhook-certificates",
		"Where the certificate of the webhook server comes from. Self: the operator signs it, keeps it in the Secret cardquota-webhook-cert and "+
			"writes its authority into the webhook configurations cardquota. Files: cert-manager or OLM put it into --webhook-cert-dir. Off: no webhooks are served.")

	set.IntVar(&f.webhookPort, "webhook-port", 9443, "The port that serves the webhooks.")
	set.StringVar(&f.webhookCertDir, "webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs",
		"The folder of tls.crt and tls.key with --webhook-certificates=Files; they are read again when they change.")
	set.StringVar(&f.webhookClientCA, "webhook-client-ca-file", "",
		"A file of certificate authorities: the webhook server answers only clients with a certificate of one of them, which the API server needs then. "+
			"The operator reads it again when it changes. Without it the server answers every client that reaches the port.")

	f.logging.BindFlags(set)

	// controller-runtime declares this flag in the program's own set, and reads it there.
	kubeconfig := flag.CommandLine.Lookup("kubeconfig")
	set.Var(kubeconfig.Value, kubeconfig.Name, kubeconfig.Usage)
	if err := set.Parse(args); err != nil {
		return flags{}, fmt.Errorf("parse flags: %w", err)
	}

	f.schedulerNamespace = cmp.Or(f.schedulerNamespace, f.operatorNamespace)
	if f.qps <= 0 {
		return flags{}, fmt.Errorf("parse flags: --kube-api-qps is %g: it must be more than 0", f.qps)
	}

	return f, nil
}
