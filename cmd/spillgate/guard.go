package main

import "github.com/spf13/cobra"

// newGuard returns the command "guard".
func newGuard() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "guard",
		Short:   "Find the task that hogs a resource of a server",
		Example: "  spillgate guard replay audit.jsonl",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newReplay())
	return cmd
}
