// Package main plays the worlds of lab/tuning with a copy of the control core. The
// experiment compiles it with constants moved; with none moved it plays as the program
// does.
//
//	player SEED SEEDS EVERY ──▶ outcomes by world and seed, as JSON
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/spillgate/spillgate/lab/tuning"
)

func main() {
	if err := play(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%d arguments, expected 3: the first seed, how many, and how many worlds there are for one that is played", len(args))
	}
	first, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	seeds, err := strconv.Atoi(args[1])
	if err != nil || seeds < 1 {
		return fmt.Errorf("%q seeds, expected 1 or more", args[1])
	}
	every, err := strconv.Atoi(args[2])
	if err != nil || every < 1 {
		return fmt.Errorf("one in %q worlds, expected 1 or more", args[2])
	}
	all, err := tuning.Play(context.Background(), first, seeds, every)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}
