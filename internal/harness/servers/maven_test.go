package servers

import (
	"archive/zip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func zipped(t *testing.T, names ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.zip")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for _, name := range names {
		w, err := z.Create(name)
		if err == nil && !strings.HasSuffix(name, "/") {
			_, err = w.Write([]byte(name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return file
}

// An archive is unpacked below a directory, and nowhere else.
func TestUnzip(t *testing.T) {
	dir := t.TempDir()
	if err := unzip(zipped(t, "server/bin/run", "server/lib/"), dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "server", "bin", "run")); err != nil || string(text) != "server/bin/run" {
		t.Errorf("%q, %v", text, err)
	}
	for _, name := range []string{"../outside", "/outside", "a/../../outside"} {
		if err := unzip(zipped(t, name), dir); err == nil {
			t.Errorf("%s was unpacked", name)
		}
	}
}

// What is in the cache is used only with the expected checksum, and nothing is fetched unasked.
func TestMavenFile(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	a := mavenArtifact{name: "g:a:1:zip", file: "a.zip", sum: strings.Repeat("0", 64)}
	if _, err := mavenFile(t.Context(), a, false); !errors.Is(err, ErrMissing) {
		t.Errorf("%v, expected that it is missing", err)
	}
	dir := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "spillgate")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, a.file), []byte("abc"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := mavenFile(t.Context(), a, false); err == nil || !strings.Contains(err.Error(), "expected "+a.sum) {
		t.Errorf("%v, expected another checksum", err)
	}
	a.sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of abc, FIPS 180-2
	if file, err := mavenFile(t.Context(), a, false); err != nil || filepath.Base(file) != a.file {
		t.Errorf("%q, %v", file, err)
	}
}

func TestJavaVersion(t *testing.T) {
	for text, want := range map[string]int{"JAVA_VERSION=\"17.0.15\"\n": 17, "IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"25\"\n": 25, "JAVA_VERSION=\"1.8.0_402\"\n": 1, "": 0} {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "release"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := javaVersion(home); got != want {
			t.Errorf("%q: %d, expected %d", text, got, want)
		}
	}
	if got := javaVersion(t.TempDir()); got != 0 {
		t.Errorf("no release: %d", got)
	}
}
