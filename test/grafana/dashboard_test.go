package grafana_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

const dashboardFile = "../../docs/grafana/redlatch.json"

type dashboard struct {
	UID           string
	Title         string
	SchemaVersion int
	Templating    struct{ List []variable }
	Panels        []panel
}

type variable struct {
	Name, Type string
	Definition string
	Datasource source
}

type source struct{ Type, UID string }

type panel struct {
	ID          int
	Type, Title string
	Description string
	Datasource  source
	GridPos     struct{ X, Y, W, H int }
	Targets     []target
	FieldConfig struct{ Defaults struct{ Unit string } }
}

type target struct {
	RefID        string
	Datasource   source
	Expr         string
	LegendFormat string
}

var (
	legendLabel  = regexp.MustCompile(`\{\{\s*([a-z_]+)\s*\}\}`)
	usedVariable = regexp.MustCompile(`\$\{?([a-zA-Z_]+)\}?`)
	labelValues  = regexp.MustCompile(`^label_values\((.+), ([a-z_]+)\)$`)
	// filled are the variables of a query, as a user fills them.
	filled = strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$template", ".*")
)

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion == 0 || len(d.Panels) < 15 {
		t.Fatalf("this is no dashboard: %+v", d)
	}
	return d
}

var mine = source{Type: "prometheus", UID: "${datasource}"}

func TestDashboardVariables(t *testing.T) {
	all, kinds := exported(t), map[string]string{}
	for _, v := range readDashboard(t).Templating.List {
		kinds[v.Name] = v.Type
		if v.Type != "query" {
			continue
		}
		if v.Datasource != mine {
			t.Errorf("%s: data source %v, want the variable's", v.Name, v.Datasource)
		}
		match := labelValues.FindStringSubmatch(v.Definition)
		if match == nil {
			t.Errorf("%s: %q", v.Name, v.Definition)
			continue
		}
		// The label must be one of the series: look for it as a query would.
		asked := "sum by (" + match[2] + ") (rate(" + filled.Replace(match[1]) + "[5m]))"
		for _, fault := range faults(all, asked) {
			t.Errorf("%s: %s", v.Name, fault)
		}
	}
	if len(kinds) != 3 || kinds["datasource"] != "datasource" || kinds["job"] != "query" || kinds["template"] != "query" {
		t.Errorf("variables %v", kinds)
	}
}

func TestDashboardPanels(t *testing.T) {
	all, d := exported(t), readDashboard(t)
	ids, cells, metrics := map[int]bool{}, map[[2]int]string{}, map[string]bool{}
	for _, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] {
			t.Errorf("%s: the id %d is not its own", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, taken := cells[[2]int{x, y}]; taken || x >= 24 {
					t.Fatalf("%s lies on %q or outside of the grid", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || p.Datasource != mine || len(p.Targets) == 0 {
			t.Errorf("panel %d lacks something: %+v", p.ID, p)
		}
		if p.Type != "heatmap" && p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("%s has no unit", p.Title)
		}
		refs := map[string]bool{}
		for _, one := range p.Targets {
			if one.Datasource != mine || refs[one.RefID] {
				t.Errorf("%s: target %+v", p.Title, one)
			}
			refs[one.RefID] = true
			var named []string
			for _, match := range legendLabel.FindAllStringSubmatch(one.LegendFormat, -1) {
				named = append(named, match[1])
			}
			for _, fault := range faults(all, filled.Replace(one.Expr), named...) {
				t.Errorf("%s: %s", p.Title, fault)
			}
			for _, match := range usedVariable.FindAllStringSubmatch(one.Expr, -1) {
				if name := match[1]; name != "job" && name != "template" && name != "__rate_interval" {
					t.Errorf("%s: there is no variable %s", p.Title, name)
				}
			}
			if !strings.Contains(one.Expr, `job=~"$job"`) {
				t.Errorf("%s: %s does not heed the choice of the job", p.Title, one.Expr)
			}
			q, _ := read(filled.Replace(one.Expr))
			for _, s := range q.selectors {
				metrics[family(s.metric)] = true
			}
		}
	}
	for _, one := range all {
		if !metrics[family(one.name)] {
			t.Errorf("%s is on no panel", one.name)
		}
	}
}

// family is the metric that a series of a histogram belongs to.
func family(name string) string {
	for _, suffix := range []string{"_seconds_bucket", "_seconds_sum", "_seconds_count"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}
