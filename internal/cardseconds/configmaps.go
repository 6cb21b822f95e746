package cardseconds

import (
	"fmt"

	"cardquota.dev/operator/api/v1alpha1"
)

// The keys of a ConfigMap with a running part: its text, and the replica that wrote it. A ConfigMap of the
// archive has its entries as binary data.
const (
	TextKey   = "card-seconds"
	WriterKey = "writer"
)

// ConfigMapName returns the name of a ConfigMap: that of a running part, or of the archive from Parts on.
func ConfigMapName(number int) string { return fmt.Sprintf("cardquota-card-seconds-%d", number) }

// ConfigMapLabels are the labels of all of these ConfigMaps.
func ConfigMapLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "cardquota", v1alpha1.LabelManagedBy: v1alpha1.FieldManager}
}
