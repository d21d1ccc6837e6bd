package main

import (
	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/lab"
)

func newLab() *cobra.Command { return lab.Command() }
