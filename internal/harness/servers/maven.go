package servers

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// mavenArtifact is a file of Maven Central.
type mavenArtifact struct {
	name string // group:artifact:version:type
	file string
	sum  string // SHA-256 in hexadecimal digits, "" unknown
}

// mavenFile returns where an artifact is: in the user's cache directory, where mvn puts it if it may be
// fetched. A file with another checksum is not used.
func mavenFile(ctx context.Context, a mavenArtifact, fetch bool) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "spillgate")
	file := filepath.Join(dir, a.file)
	if _, err := os.Stat(file); err == nil {
		return file, a.check(file)
	}
	mvn, err := exec.LookPath("mvn")
	if !fetch || err != nil {
		return "", fmt.Errorf("%w: %s is not in %s, and was not asked to be fetched with mvn", ErrMissing, a.file, dir)
	}
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy", "-Dartifact="+a.name, "-DoutputDirectory="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn: %w: %s", err, tail(string(out)))
	}
	return file, a.check(file)
}

// check compares the checksum.
func (a mavenArtifact) check(file string) error {
	if a.sum == "" {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != a.sum {
		return fmt.Errorf("%s has the SHA-256 %s, expected %s: remove it", file, sum, a.sum)
	}
	return nil
}

// largestZip bounds, in bytes, what a zip archive unpacks to.
const largestZip = 1 << 30

// unzip writes what an archive holds below dir.
func unzip(archive, dir string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer z.Close()
	left := int64(largestZip)
	for _, f := range z.File {
		name := filepath.FromSlash(f.Name)
		if left -= int64(f.UncompressedSize64); !filepath.IsLocal(name) || left < 0 {
			return fmt.Errorf("the archive holds %q of %d bytes, expected a server", f.Name, f.UncompressedSize64)
		}
		if err := unzipOne(f, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func unzipOne(f *zip.File, name string) error {
	if f.FileInfo().IsDir() {
		return os.MkdirAll(name, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, f.Mode().Perm()|0o444)
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, in, int64(f.UncompressedSize64))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, out.Close())
}

// javaHome returns the directory of a Java of at least a version: that of JAVA_HOME, of the program
// java, or one that Debian's packages have installed.
func javaHome(least int) (string, error) {
	var homes []string
	if home := os.Getenv("JAVA_HOME"); home != "" {
		homes = append(homes, home)
	}
	if java, err := exec.LookPath("java"); err == nil {
		if real, err := filepath.EvalSymlinks(java); err == nil {
			homes = append(homes, filepath.Dir(filepath.Dir(real)))
		}
	}
	more, _ := filepath.Glob("/usr/lib/jvm/*")
	for _, home := range append(homes, more...) {
		if javaVersion(home) >= least {
			return home, nil
		}
	}
	return "", fmt.Errorf("%w: it needs Java %d or later, in JAVA_HOME, on PATH or in /usr/lib/jvm", ErrMissing, least)
}

// javaVersion reads the major version in the file release of a Java, 0 if there is none.
func javaVersion(home string) int {
	text, err := os.ReadFile(filepath.Join(home, "release"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), `JAVA_VERSION="`)
	major, _, _ := strings.Cut(rest, ".")
	n, _ := strconv.Atoi(strings.TrimRight(major, "\"\n"))
	return n
}
