package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/redlatch/redlatch/test/internal/redistest"
)

// recipes are the blocks of the manual in a language.
func recipes(t *testing.T, language string) (blocks []string) {
	t.Helper()
	manual, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(manual), -1) {
		blocks = append(blocks, match[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("the manual has no %s", language)
	}
	return blocks
}

// host is a machine on which the programs of the recipes note that they ran.
func host(t *testing.T, server *redistest.Server) (s *shell, here func(string) string, ran string) {
	t.Helper()
	folder := t.TempDir()
	ran = filepath.Join(folder, "ran")
	for _, program := range []string{"report", "scheduler", "migrate"} {
		script := fmt.Sprintf("#!/bin/sh\necho %s $REDLATCH_KEY $REDLATCH_FENCE >> %s\n", program, ran)
		if err := os.WriteFile(filepath.Join(folder, program), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(binary, filepath.Join(folder, "redlatch")); err != nil {
		t.Fatal(err)
	}
	s = newShell(t, "PATH="+folder+":"+os.Getenv("PATH"))
	return s, strings.NewReplacer("/usr/local/bin/", folder+"/", "redis://redis:6379/0", server.URL()).Replace, ran
}

// sh runs a line as the shell of a host does.
func (s *shell) sh(env []string, args ...string) (says string, code int) {
	s.Helper()
	c := exec.CommandContext(s.Context(), args[0], args[1:]...)
	c.Env = append(s.env, env...)
	if c.Path == "redlatch" || filepath.Base(args[0]) == "redlatch" {
		c.Path, c.Err = binary, nil
	}
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		s.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// The recipes of the manual run as they stand there, on three hosts each: once.
func TestTheRecipesOfTheManualRunOnce(t *testing.T) {
	t.Run("cron", func(t *testing.T) {
		server := redistest.Standalone(t)
		s, here, ran := host(t, server)
		line := strings.TrimSpace(recipes(t, "cron")[0])
		command := strings.ReplaceAll(regexp.MustCompile(`^(\S+ +){5}`).ReplaceAllString(here(line), ""), `\%`, "%") // as cron does
		command = strings.Replace(command, "$(date -u +%H%M)", "1200", 1)                                            // one tick, however long the test takes
		codes := make(map[int]int)
		for range 3 {
			says, code := s.sh([]string{"REDLATCH_REDIS=" + server.URL()}, "sh", "-c", command)
			if codes[code]++; says != "" {
				t.Errorf("prints %q", says)
			}
		}
		if codes[0] != 1 || codes[75] != 2 || !regexp.MustCompile(`^report report:1200 \d{15,}\n$`).MatchString(s.read(ran)) {
			t.Errorf("exit codes %v; ran %q", codes, s.read(ran))
		}
	})
	t.Run("systemd", func(t *testing.T) {
		server := redistest.Standalone(t)
		s, here, ran := host(t, server)
		unit := here(recipes(t, "ini")[0])
		value := func(name string) string {
			match := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(unit)
			if match == nil {
				t.Fatalf("the unit has no %s", name)
			}
			return match[1]
		}
		if says, code := s.sh([]string{value("Environment")}, strings.Fields(value("ExecStart"))...); code != 0 || !strings.HasPrefix(s.read(ran), "scheduler scheduler ") {
			t.Errorf("%d %s; ran %q", code, says, s.read(ran))
		}
	})
	t.Run("Kubernetes", func(t *testing.T) {
		server := redistest.Standalone(t)
		s, here, ran := host(t, server)
		for _, manifest := range recipes(t, "yaml") {
			var job any
			if err := yaml.Load([]byte(here(manifest)), &job); err != nil {
				t.Fatal(err)
			}
			c := container(t, job)
			for range 3 {
				if says, code := s.sh(c.env, c.args...); code != 0 {
					t.Errorf("%q: %d %s", c.args, code, says)
				}
			}
		}
		if text := s.read(ran); strings.Count(text, "report report ") != 1 || strings.Count(text, "migrate db:migrate ") != 3 {
			t.Errorf("ran %q, want the report once, and each migration", text)
		}
	})
}

// podContainer is what a manifest has run.
type podContainer struct{ args, env []string }

// container finds the container of a Job or a CronJob.
func container(t *testing.T, manifest any) (c podContainer) {
	t.Helper()
	at := func(v any, path ...string) any {
		for _, name := range path {
			fields, _ := v.(map[string]any)
			v = fields[name]
		}
		return v
	}
	spec := at(manifest, "spec")
	if inner := at(spec, "jobTemplate", "spec"); inner != nil {
		spec = inner
	}
	containers, _ := at(spec, "template", "spec", "containers").([]any)
	if len(containers) != 1 {
		t.Fatalf("%d containers in %v", len(containers), manifest)
	}
	for _, list := range []string{"command", "args"} {
		words, _ := at(containers[0], list).([]any)
		for _, word := range words {
			c.args = append(c.args, fmt.Sprint(word))
		}
	}
	variables, _ := at(containers[0], "env").([]any)
	for _, v := range variables {
		if value := at(v, "value"); value != nil {
			c.env = append(c.env, fmt.Sprint(at(v, "name"), "=", value))
		}
	}
	return c
}
