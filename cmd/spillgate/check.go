package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/config"
)

func newCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Say everything that is wrong with configuration files",
		Long: `Read configuration files, and the files they name, and print every mistake with
its place: file:line:column. Nothing is started and no name is resolved. The exit
code is 0 if all files are right and 1 if one is not.`,
		Example: "  spillgate check spillgate.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			mistakes := 0
			for _, path := range args {
				if _, err := config.Load(path); err != nil {
					for _, mistake := range flatten(err) {
						mistakes++
						fmt.Fprintln(cmd.OutOrStdout(), mistake)
					}
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", path)
			}
			switch mistakes {
			case 0:
				return nil
			case 1:
				return errors.New("1 mistake")
			}
			return fmt.Errorf("%d mistakes", mistakes)
		},
	}
}
