package main

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the platform",
		Example: "  spillgate version",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{}
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version(info))
			return err
		},
	}
}

// pseudo matches a version that the go command makes for a commit without a tag, and the
// commit in it.
var pseudo = regexp.MustCompile(`[.-]\d{14}-([0-9a-f]{12})(\+.*)?$`)

// version describes a build on one line. "go install MODULE@VERSION" knows the version,
// and the commit if it has no tag; "go build" in a clone knows the commit; "go run" and a
// build outside of version control know neither.
func version(info *debug.BuildInfo) string {
	release, commit := info.Main.Version, ""
	if found := pseudo.FindStringSubmatch(release); found != nil {
		commit = found[1]
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			commit = setting.Value[:min(12, len(setting.Value))]
		case "vcs.modified":
			if setting.Value == "true" {
				commit += " with changes"
			}
		}
	}
	if release == "" || release == "(devel)" {
		release = "development"
		if commit == "" {
			commit = "unknown commit"
		}
	}
	if commit != "" {
		release += " (" + commit + ")"
	}
	return fmt.Sprintf("spillgate %s, %s, %s/%s", release, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
