package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/spillgate/spillgate/config"
)

// manifest is what the test looks at in an object of Kubernetes.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Template struct {
			Spec struct {
				TerminationGracePeriodSeconds int         `yaml:"terminationGracePeriodSeconds"`
				InitContainers                []container `yaml:"initContainers"`
				Containers                    []container
				Volumes                       []struct {
					ConfigMap struct{ Name string } `yaml:"configMap"`
				}
			}
		}
	}
}

type container struct {
	Name, Image string
	Args        []string
}

func manifests(t *testing.T) (all []manifest) {
	paths, _ := filepath.Glob(filepath.Join("..", "..", "deploy", "kubernetes", "*.yaml"))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			var m manifest
			if err := yaml.Unmarshal([]byte(document), &m); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if m.Kind == "" || m.Metadata.Name == "" {
				t.Errorf("%s: an object without kind or name", path)
			}
			all = append(all, m)
		}
	}
	return all
}

// The configurations in the manifests are right, containers are started with commands
// that exist, and pods live long enough to drain.
func TestManifests(t *testing.T) {
	drains := map[string]time.Duration{}
	all := manifests(t)
	for _, m := range all {
		for name, text := range m.Data {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := config.Load(path)
			if err != nil {
				t.Errorf("%s: %v", m.Metadata.Name, err)
				continue
			}
			drain := file.Proxy.WithDefaults().Drain
			drains[m.Metadata.Name] = drain.Notice + drain.Timeout
		}
	}
	deployments := 0
	for _, m := range all {
		if m.Kind != "Deployment" {
			continue
		}
		deployments++
		pod := m.Spec.Template.Spec
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			if strings.HasPrefix(c.Image, "spillgate:") {
				checkCommand(t, filepath.Join("..", ".."), m.Metadata.Name, c.Args)
			}
		}
		for _, v := range pod.Volumes {
			drain, known := drains[v.ConfigMap.Name]
			if grace := time.Duration(pod.TerminationGracePeriodSeconds) * time.Second; !known || grace <= drain {
				t.Errorf("%s: %v to end, with the configuration %q (%v) that drains for %v", m.Metadata.Name, grace, v.ConfigMap.Name, known, drain)
			}
		}
	}
	if deployments == 0 || len(drains) == 0 {
		t.Errorf("%d deployments and %d configurations found", deployments, len(drains))
	}
}

// The units start commands that exist.
func TestUnits(t *testing.T) {
	paths, _ := filepath.Glob(filepath.Join("..", "..", "deploy", "systemd", "*.service"))
	start := regexp.MustCompile(`(?m)^ExecStart(?:Pre)?=/usr/local/bin/spillgate (.*)$`)
	seen := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range start.FindAllStringSubmatch(string(text), -1) {
			seen++
			checkCommand(t, filepath.Join("..", ".."), filepath.Base(path), words(found[1]))
		}
	}
	if seen < 4 {
		t.Errorf("%d commands found", seen)
	}
}
