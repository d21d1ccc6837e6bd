package taskfile

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/tracers"
)

// TestTheEngineDecidesTheSame has the tracer of each language act out one recorded story,
// and the engine look at the file of each at the same instants: samples and decisions are
// the same, byte for byte, and name the report.
func TestTheEngineDecidesTheSame(t *testing.T) {
	const script = "testdata/shop.events"
	f, looks := playLooks(t, read(t, script))
	want := decisions(t, f.geo, looks)
	if !bytes.Contains(want, []byte(`"named":"report"`)) || bytes.Contains(want, []byte(`"named":"order"`)) || bytes.Contains(want, []byte(`"named":"scan"`)) {
		t.Errorf("through Go the engine decides\n%s", want)
	}
	for name, command := range map[string]func() []string{
		"C": func() []string { return []string{tracers.C(t, []string{"-O1"}, "tracer/c/test/vectors.c")} },
		"Java": func() []string {
			classpath := tracers.Java(t, "tracer/java/test/spillgate/tracer/Vectors.java")
			return []string{tracers.Runtimes(t)[0], "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", classpath, "spillgate.tracer.Vectors"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			play, out := command(), filepath.Join(t.TempDir(), "looks")
			tracers.Run(t, nil, play[0], append(play[1:], "play", script, out)...)
			if got := decisions(t, f.geo, []byte(read(t, out))); !bytes.Equal(got, want) {
				t.Errorf("the engine decides\n%s\nand through Go\n%s", got, want)
			}
		})
	}
}

// decisions has an engine look at the files of looks, which follow each other in images,
// and returns what it saw and decided. A file's clock is the present.
func decisions(t *testing.T, g Geometry, images []byte) []byte {
	t.Helper()
	const objective = 100 * time.Millisecond
	choice, err := culprit.New(culprit.Config{Objective: objective, Mode: culprit.Enforce})
	if err != nil {
		t.Fatal(err)
	}
	f := inMemory(g)
	r := newReader(f)
	var out bytes.Buffer
	for image := range slices.Chunk(images, g.fileBytes()) {
		if len(image) != g.fileBytes() {
			t.Fatalf("%d bytes at the end, expected files of %d", len(image), g.fileBytes())
		}
		copy(f.mem, image)
		r.read(f.live.clock&^modeBits, objective)
		d := choice.Observe(&r.look.Sample)
		named := ""
		for i := range r.look.Sample.Tasks {
			if task := &r.look.Sample.Tasks[i]; task.ID == d.Action.Task {
				named = nameOf(f, task.Kind)
			}
		}
		line, err := json.Marshal(map[string]any{"sample": r.look.Sample, "decision": d, "named": named})
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
}

// nameOf returns the name of a kind.
func nameOf(f *File, kind uint64) string {
	for i := range f.kindNames() {
		if name, _, ok := f.kindNames()[i].read(); ok && Fingerprint(name) == kind {
			return name
		}
	}
	return ""
}
