package output

import (
	"fmt"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
)

// DescribeForecast returns the youngest workloads of a list of a forecast with their cards, at most so many, and how many
// more there are: "Job lab/train (8 NVIDIA-H200), Pod lab/a (1 NVIDIA-H200) and 3 more".
func DescribeForecast(list *v1alpha1.ForecastWorkloads, most int) string {
	shown := list.Workloads[:min(len(list.Workloads), most)]
	texts := make([]string, len(shown))
	for i, entry := range shown {
		texts[i] = DescribeWorkload(entry.Workload)
		if entry.Count > 0 {
			texts[i] += fmt.Sprintf(" (%d %s)", entry.Count, Clean(strings.ReplaceAll(entry.Card, "|", " or ")))
		}
	}

	text := strings.Join(texts, ", ")
	if more := int(list.Total) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
