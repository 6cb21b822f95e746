package observer

// reclaimedLossMetric counts the work that action cardreclaim destroys.
const reclaimedLossMetric = "cardquota_reclaimed_card_seconds_total"

// ReclaimedCardSeconds returns the work of a queue that action cardreclaim has destroyed, as the page of
// the scheduler says.
func (p *Page) ReclaimedCardSeconds(queue string) (seconds float64, err error) {
	samples, err := readSamples(p.Text)
	for _, s := range samples {
		if s.name == reclaimedLossMetric && s.labels["queue"] == queue {
			seconds += s.value
		}
	}
	return seconds, err
}
