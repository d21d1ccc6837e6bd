package taskfile

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the vectors anew")

const vectors = "../../tracer/vectors/"

// TestVectors acts out every script and compares the file, byte for byte; then
// it reads the file of the vector.
func TestVectors(t *testing.T) {
	scripts, err := filepath.Glob(vectors + "*.script")
	if err != nil || len(scripts) < 5 {
		t.Fatalf("%d scripts (%v)", len(scripts), err)
	}
	for _, script := range scripts {
		base := strings.TrimSuffix(script, ".script")
		t.Run(filepath.Base(base), func(t *testing.T) {
			text, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			f := play(t, string(text))
			golden(t, base+".hex", hexOf(f.mem))
			b, err := bytesOf(read(t, base+".hex"))
			if err != nil {
				t.Fatal(err)
			}
			g, err := parseHeader(b, int64(len(b)), fakePlace)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, base+".dump", dump(over(g, b)))
		})
	}
}

// TestRefusals damages a file in each of the ways of refusals.txt.
func TestRefusals(t *testing.T) {
	whole, err := bytesOf(read(t, vectors+"empty.hex"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(read(t, vectors+"refusals.txt")) {
		if line[0] == '#' {
			continue
		}
		word, b := damaged(t, whole, line)
		_, err := parseHeader(b, int64(len(b)), fakePlace)
		var r *Refusal
		if word == "ok" && err == nil {
			continue
		}
		if !errors.As(err, &r) || r.Word != word {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
		}
	}
}

// damaged applies one line of refusals.txt to a copy of a file.
func damaged(t *testing.T, whole []byte, line string) (word string, b []byte) {
	t.Helper()
	fields := strings.Fields(line)
	size, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	b = append(append([]byte{}, whole...), make([]byte, 64)...)[:size]
	for _, patch := range fields[2:] {
		at, digits, _ := strings.Cut(patch, ":")
		offset, err := strconv.Atoi(at)
		junk, err2 := hex.DecodeString(digits)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		copy(b[offset:], junk)
	}
	return fields[0], b
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := read(t, path); got != want {
		t.Errorf("%s holds\n%s\nand now it is\n%s", path, want, got)
	}
}

func hexOf(b []byte) string {
	var out strings.Builder
	fmt.Fprintf(&out, "size %d\n", len(b))
	for at := 0; at < len(b); at += 16 {
		if row := b[at:min(at+16, len(b))]; !bytes.Equal(row, make([]byte, len(row))) {
			fmt.Fprintf(&out, "%08x: %x\n", at, row)
		}
	}
	return out.String()
}

func bytesOf(text string) ([]byte, error) {
	var size int
	if _, err := fmt.Sscanf(text, "size %d\n", &size); err != nil {
		return nil, err
	}
	b := make([]byte, size)
	for _, row := range strings.Split(strings.TrimSpace(text), "\n")[1:] {
		at, digits, _ := strings.Cut(row, ": ")
		offset, err := strconv.ParseUint(at, 16, 31)
		if err != nil || int(offset) >= size {
			return nil, fmt.Errorf("row %q: %v", row, err)
		}
		bytes, err := hex.DecodeString(digits)
		if err != nil {
			return nil, err
		}
		copy(b[offset:], bytes)
	}
	return b, nil
}
