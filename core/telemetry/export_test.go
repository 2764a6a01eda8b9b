package telemetry

// Values are all outcomes and error types.
func Values() (values []string) {
	for _, r := range results {
		values = append(values, r.outcome, r.errorType)
	}
	for _, e := range ends {
		values = append(values, e.outcome, e.errorType)
	}
	return append(values, renewals[:]...)
}
