package policy

import (
	"errors"
	"time"
	_ "time/tzdata" // images have no database of time zones

	"cardquota.dev/operator/api/v1alpha1"
)

// BillingTimeZone returns the time zone in which the days of bills begin. The default is UTC. It refuses Local, which
// is the zone of whichever machine the operator runs on.
func BillingTimeZone(spec v1alpha1.ServiceTypePolicySpec) (*time.Location, error) {
	zone, err := time.LoadLocation(spec.BillingTimeZone)
	if err != nil || spec.BillingTimeZone == time.Local.String() {
		return nil, errors.New("there is no such time zone: write a name of the IANA database, such as Europe/Berlin, or UTC")
	}
	return zone, nil
}
