package main

import (
	"encoding/json"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/demo/stage"
)

func newDemo() *cobra.Command {
	quick := false
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Overload three services, first plain and then gated, and watch",
		Example: "  spillgate demo",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg := demo.Config{Plan: demo.Full(), Seed: rand.Uint64N(1e6), Command: []string{"demo", "part"}}
			if quick {
				cfg.Plan = demo.Quick()
			}
			st, err := demo.Play(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetIndent("", " ")
			return e.Encode(st)
		},
	}
	cmd.Flags().BoolVar(&quick, "quick", false, "a quarter of the time")
	cmd.AddCommand(&cobra.Command{
		Use: "part", Short: "Play a part in the demo", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return stage.Run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	})
	return cmd
}
