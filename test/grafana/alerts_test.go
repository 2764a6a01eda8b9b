package grafana_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

type alerts struct {
	Groups []struct {
		Name  string  `yaml:"name"`
		Rules []alert `yaml:"rules"`
	} `yaml:"groups"`
}

type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

const runbook = "https://github.com/redlatch/redlatch/blob/main/docs/operations.md#"

var (
	alertName  = regexp.MustCompile(`^Redlatch[A-Z][A-Za-z]+$`)
	usedLabel  = regexp.MustCompile(`\$labels\.([a-z_]+)`)
	expansion  = regexp.MustCompile(`\{\{[^}]*\}\}`)
	understood = regexp.MustCompile(`^\{\{ (?:\$labels\.[a-z_]+|\$value(?: \| humanize(?:Percentage|Duration))?) \}\}$`)
)

func readAlerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile("../../docs/grafana/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file alerts
	if err := yaml.Load(text, &file, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 || file.Groups[0].Name == "" || len(file.Groups[0].Rules) < 8 {
		t.Fatalf("these are no alerts: %+v", file)
	}
	return file.Groups[0].Rules
}

// section returns the part of the runbook under a heading, "" if there is none.
func section(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n### "+heading+"\n")
	if !found {
		return ""
	}
	before, _, _ := strings.Cut(after, "\n#")
	return before
}

func TestAlerts(t *testing.T) {
	all := exported(t)
	var names []string
	for _, a := range readAlerts(t) {
		if !alertName.MatchString(a.Alert) || slices.Contains(names, a.Alert) {
			t.Errorf("%s: the name is malformed or not its own", a.Alert)
		}
		names = append(names, a.Alert)
		if severity := a.Labels["severity"]; len(a.Labels) != 1 || severity != "warning" && severity != "critical" {
			t.Errorf("%s: labels %v", a.Alert, a.Labels)
		}
		if a.For != "" {
			if d, err := time.ParseDuration(a.For); err != nil || d <= 0 {
				t.Errorf("%s: for %q", a.Alert, a.For)
			}
		}
		var named []string
		for key, text := range a.Annotations {
			if !slices.Contains([]string{"summary", "description", "runbook_url"}, key) || text == "" {
				t.Errorf("%s: annotation %s %q", a.Alert, key, text)
			}
			for _, part := range expansion.FindAllString(text, -1) {
				if !understood.MatchString(part) {
					t.Errorf("%s: %s", a.Alert, part)
				}
			}
			for _, match := range usedLabel.FindAllStringSubmatch(text, -1) {
				named = append(named, match[1])
			}
		}
		if len(a.Annotations) != 3 {
			t.Errorf("%s: annotations %v", a.Alert, a.Annotations)
		}
		for _, fault := range faults(all, a.Expr, named...) {
			t.Errorf("%s: %s", a.Alert, fault)
		}
		if !regexp.MustCompile(`[><] `).MatchString(a.Expr) {
			t.Errorf("%s: there is no limit in %s", a.Alert, a.Expr)
		}
	}
}

// An alert at night is worth what its runbook says.
func TestEveryAlertHasItsRunbook(t *testing.T) {
	for _, a := range readAlerts(t) {
		if want := runbook + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook %s, want %s", a.Alert, a.Annotations["runbook_url"], want)
		}
		text := section(t, a.Alert)
		for _, part := range []string{"**Means**", "**Look at**", "**Do**"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s: its section in docs/operations.md has no %s", a.Alert, part)
			}
		}
	}
}
