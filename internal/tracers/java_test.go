package tracers

import (
	"path/filepath"
	"testing"
)

// TestJavaLibrary runs the library's own checks on every Java that is there.
func TestJavaLibrary(t *testing.T) {
	classpath := Java(t, "tracer/java/test/spillgate/tracer/Check.java")
	for _, java := range Runtimes(t) {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(java))), func(t *testing.T) {
			Run(t, nil, java, "-cp", classpath, "spillgate.tracer.Check", filepath.Join(t.TempDir(), "tasks"))
		})
	}
}

// BenchmarkJava reports what an event costs in the Java library, beside half of
// an uncontended lock and unlock.
func BenchmarkJava(b *testing.B) {
	classpath := Java(b, "tracer/java/test/spillgate/tracer/Bench.java")
	for _, java := range Runtimes(b) {
		b.Run(filepath.Base(filepath.Dir(filepath.Dir(java))), func(b *testing.B) {
			for b.Loop() {
				report(b, Run(b, nil, java, "-cp", classpath, "spillgate.tracer.Bench", filepath.Join(b.TempDir(), "tasks"), "20000000"))
			}
		})
	}
}
