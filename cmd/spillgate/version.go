package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the platform",
		Example: "  spillgate version",
		Args:    cobra.NoArgs,
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

// version describes a build on one line. A build outside version control, such
// as one by "go run", knows no commit.
func version(info *debug.BuildInfo) string {
	release := info.Main.Version
	if release == "" || release == "(devel)" {
		release = "development"
	}
	commit := "unknown commit"
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
	return fmt.Sprintf("spillgate %s (%s), %s, %s/%s", release, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
