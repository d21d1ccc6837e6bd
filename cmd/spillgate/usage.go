package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spillgate/spillgate/internal/spelling"
)

// usageError is a mistake in how the command was called.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usage joins the mistakes that a command found in its flags and arguments, nil
// ones left out, and returns nil if there are none. A command returns it before
// it starts anything:
//
//	if err := usage(checkListen(listen), checkSLO(slo)); err != nil {
//		return err
//	}
func usage(mistakes ...error) error {
	if err := errors.Join(mistakes...); err != nil {
		return &usageError{err}
	}
	return nil
}

// noArgs is for commands that have flags alone. cobra.NoArgs calls a word that follows an unknown
// command, although these have none.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q: whatever this command needs is a flag", args[0])
	}
	return nil
}

// needs is for commands whose arguments have the names that the usage line shows.
func needs(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return fmt.Errorf("%d arguments, expected %d: %s", len(args), len(names), strings.Join(names, " "))
		}
		return nil
	}
}

// flagMistakes returns all that is wrong with args, the whole command line, when
// something is wrong with a flag. Parsing stops at the first mistake, so it is repeated, with each
// mistake mended, until none is left.
func flagMistakes(cmd *cobra.Command, args []string, first error) error {
	_, rest, err := cmd.Root().Find(args)
	if err != nil {
		return usage(first)
	}
	// A parse into a copy of the set; the values are shared, which does not
	// matter any more, because the command will not run.
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.AddFlagSet(cmd.Flags())
	flags.AddFlagSet(cmd.InheritedFlags())
	flags.SetInterspersed(true)

	var mistakes []error
	for range rest { // every round mends one word at least
		var values []error
		err := flags.ParseAll(rest, func(flag *pflag.Flag, value string) error {
			if err := flag.Value.Set(value); err != nil {
				values = append(values, badValue(flag, value, err))
			}
			return nil
		})
		var unknown *pflag.NotExistError
		if !errors.As(err, &unknown) {
			mistakes = append(append(mistakes, values...), err)
			if err == nil {
				mistakes = append(mistakes, cmd.ValidateArgs(flags.Args()))
			}
			break
		}
		mistakes = append(mistakes, unknownFlag(flags, unknown))
		define(flags, unknown)
	}
	if usage(mistakes...) == nil {
		return usage(first) // found by a check this loop does not know
	}
	return usage(mistakes...)
}

// unknownFlag describes a flag that does not exist, with the one that was probably meant.
func unknownFlag(flags *pflag.FlagSet, err *pflag.NotExistError) error {
	name := err.GetSpecifiedName()
	var known []string
	flags.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if meant := spelling.Closest(name, known); meant != "" && err.GetSpecifiedShortnames() == "" {
		return fmt.Errorf("%w; did you mean --%s?", err, meant)
	}
	return err
}

// badValue describes a flag's value that its type refused.
func badValue(flag *pflag.Flag, value string, err error) error {
	var number *strconv.NumError
	if errors.As(err, &number) {
		err = number.Err
	}
	expected, ok := inWords[flag.Value.Type()]
	if !ok {
		expected = flag.Value.Type()
	}
	return fmt.Errorf("--%s %q: %w, expected %s", flag.Name, value, err, expected)
}

// inWords says what the values of flags are, by their types.
var inWords = map[string]string{
	"duration": "a duration such as 100ms",
	"int":      "a whole number",
	"uint64":   "a whole number of at least 0",
	"float64":  "a number",
	"bool":     "true or false",
}

// define adds an unknown flag to the set, so that the next round passes it.
func define(flags *pflag.FlagSet, unknown *pflag.NotExistError) {
	name, short := unknown.GetSpecifiedName(), ""
	if unknown.GetSpecifiedShortnames() != "" {
		short, name = name, "unknown-"+name
	}
	flags.StringP(name, short, "", "")
	flags.Lookup(name).NoOptDefVal = "given" // takes no following word
}

// printMistakes writes wrong usage to w, one mistake a line.
func printMistakes(w io.Writer, cmd *cobra.Command, err error) {
	mistakes := flatten(err)
	if len(mistakes) == 1 {
		fmt.Fprintf(w, "%s: %v\n", cmd.CommandPath(), mistakes[0])
	} else {
		fmt.Fprintf(w, "%s: %d mistakes:\n", cmd.CommandPath(), len(mistakes))
		for _, mistake := range mistakes {
			fmt.Fprintf(w, "  %v\n", mistake)
		}
	}
	fmt.Fprintf(w, "Run '%s --help' for its flags and arguments.\n", cmd.CommandPath())
}

// flatten returns the errors that err joins, at any depth. One that has a text of its own around several stays whole.
func flatten(err error) []error {
	var wrong *usageError
	if errors.As(err, &wrong) {
		err = wrong.err
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || err.Error() != errors.Join(joined.Unwrap()...).Error() {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, flatten(err)...)
	}
	return all
}
