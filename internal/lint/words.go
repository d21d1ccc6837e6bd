package lint

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// words looks for forbidden words in every text file of the project: in a git
// working copy what git tracks or would add, elsewhere every file.
func (c *checker) words() error {
	names, err := textFiles(c.module.root)
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(c.module.root, filepath.FromSlash(name)))
		if os.IsNotExist(err) {
			continue // tracked, but deleted in the working copy
		}
		if err != nil {
			return err
		}
		if bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
			continue // not text
		}
		line := 0
		for content := range bytes.Lines(text) {
			line++
			for _, word := range c.house.Words {
				if found := word.Pattern.Find(content); found != nil {
					c.report(name, line, Word, "%q: %s", bytes.TrimSpace(found), word.Why)
				}
			}
		}
	}
	return nil
}

// textFiles lists the project's regular files, relative to root.
func textFiles(root string) ([]string, error) {
	var names []string
	if _, err := os.Stat(filepath.Join(root, ".git")); err == nil {
		git := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
		git.Dir = root
		if out, err := git.Output(); err == nil {
			for name := range bytes.SplitSeq(out, []byte{0}) {
				info, err := os.Lstat(filepath.Join(root, string(name)))
				if len(name) > 0 && err == nil && info.Mode().IsRegular() {
					names = append(names, string(name))
				}
			}
			return names, nil
		}
	}
	return names, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".git" {
			return filepath.SkipDir
		}
		if entry.Type().IsRegular() {
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			names = append(names, filepath.ToSlash(rel))
		}
		return nil
	})
}
