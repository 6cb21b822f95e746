package configloader

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
)

// EventSource is the component of events about the configuration. It differs from the
// scheduler's name: client-go limits events per source, and Volcano uses up the scheduler's
// limit within seconds.
const EventSource = "cardquota-scheduler-config"

// Reasons of a Status; they are also the reasons of events.
const (
	// ReasonLoaded: the source's text is in force.
	ReasonLoaded = "ConfigurationLoaded"
	// ReasonNotConfigured: there has been no valid text yet, and the scheduler places no pods.
	ReasonNotConfigured = v1alpha1.ReasonNotConfigured
	// ReasonRejected: the source's text is invalid, the last valid one stays in force.
	ReasonRejected = "ConfigurationRejected"
	// ReasonMissing: the source is gone, the last valid text stays in force.
	ReasonMissing = "ConfigurationMissing"
	// ReasonArgumentIgnored: the source's text is in force, and Volcano ignores some of it.
	ReasonArgumentIgnored = "ArgumentIgnored"
	// ReasonNotWritten: the text is valid but could not be written; the loader tries again.
	ReasonNotWritten = "ConfigurationNotWritten"
)

// Status is what a Loader did with its source.
type Status struct {
	// Reason is one of the Reason constants.
	Reason string
	// Message says what is in force or what is wrong, one error per line.
	Message string
	// Hash is schedulerconfig.Hash of the text in force, empty if there is none.
	Hash string
	// Warning names arguments without effect in the text in force, one per line.
	Warning string
}

// String returns one line for logs and health pages, or several when there are several errors.
func (s Status) String() string {
	if s.Hash == "" {
		return fmt.Sprintf("%s: %s", s.Reason, s.Message)
	}
	return fmt.Sprintf("%s: %s (in force: %s)", s.Reason, s.Message, s.Hash)
}

// Problem returns why the newest configuration is not in force, "" when it is.
func (s Status) Problem() string {
	if s.Reason == ReasonLoaded {
		return ""
	}
	return s.Message
}

// reportChange reports a changed status in the log, in the metrics and on the source's object.
func (l *Loader) reportChange(before Status) {
	now := l.status
	if now == before {
		return
	}

	l.gauges.setStatus(now)
	if now.Reason == ReasonLoaded {
		l.config.Log.Info("configuration loaded", "source", l.config.Source.String(), "hash", now.Hash)
		l.recordEvent(corev1.EventTypeNormal, now.Reason, fmt.Sprintf("configuration %s is loaded", now.Hash))
		if now.Warning != "" {
			l.config.Log.Info("arguments without effect", "source", l.config.Source.String(), "message", now.Warning)
			l.recordEvent(corev1.EventTypeWarning, ReasonArgumentIgnored, now.Warning)
		}
		return
	}

	consequence := "no pod is scheduled until a configuration is loaded"
	if now.Hash != "" {
		consequence = "the last valid one stays in force"
	}

	l.config.Log.Info("configuration not loaded: "+consequence,
		"source", l.config.Source.String(), "reason", now.Reason, "message", now.Message, "hashInForce", now.Hash)
	l.recordEvent(corev1.EventTypeWarning, now.Reason, fmt.Sprintf("configuration not loaded, %s: %s", consequence, now.Message))
}

// maxEventNote is the API's limit for an event's note.
const maxEventNote = 1024

// recordEvent sends an event about the ConfigMap, none if the source is a file or has not been found so far.
func (l *Loader) recordEvent(kind, reason, message string) {
	if l.config.Recorder == nil || l.lastContent.object == nil {
		return
	}
	l.config.Recorder.Event(l.lastContent.object, kind, reason, conditions.Truncate(message, maxEventNote))
}

// gauges are the metrics of a loader.
type gauges struct {
	valid prometheus.Gauge
	info  *prometheus.GaugeVec
}

func newGauges() gauges {
	return gauges{
		valid: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "cardquota_scheduler_config_valid",
			Help: "1 if the scheduler configuration as it is written now is in force, 0 if it is missing or was refused.",
		}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cardquota_scheduler_config_info",
			Help: "Always 1; the label is the SHA-256 of the scheduler configuration in force. Absent while there is none.",
		}, []string{"hash"}),
	}
}

// Metrics returns the metrics for the program to register.
func (l *Loader) Metrics() []prometheus.Collector {
	return []prometheus.Collector{l.gauges.valid, l.gauges.info}
}

// setStatus publishes a status. Only one hash is published at a time.
func (g gauges) setStatus(status Status) {
	g.valid.Set(0)
	if status.Reason == ReasonLoaded {
		g.valid.Set(1)
	}
	g.info.Reset()
	if status.Hash != "" {
		g.info.WithLabelValues(status.Hash).Set(1)
	}
}
