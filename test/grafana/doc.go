// Package grafana holds the dashboard and the alert rules to the metrics that
// the library exports. It is a separate module, so that the library needs no
// exporter.
package grafana
