package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/spillgate/spillgate/broker/access"
)

func newBrokerPassword() *cobra.Command {
	return &cobra.Command{
		Use:   "password [NAME]",
		Short: "Make the hash of a password",
		Long: `Read a password from the standard input, without showing it on a terminal, and print
its bcrypt hash, for the key password of a user. With NAME print a line NAME:HASH for a
file of passwords. The password is nowhere else, and cannot be found from the hash.`,
		Example: `  spillgate broker password
  spillgate broker password sensor < secret >> broker.passwords`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%d arguments, expected at most a name", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			password, err := readPassword(cmd.InOrStdin(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			hash, err := access.Hash(password)
			if err != nil {
				return usage(err)
			}
			if len(args) > 0 {
				hash = args[0] + ":" + hash
			}
			fmt.Fprintln(cmd.OutOrStdout(), hash)
			return nil
		},
	}
}

// readPassword reads a line, which a terminal does not show.
func readPassword(in io.Reader, prompt io.Writer) ([]byte, error) {
	if file, ok := in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprint(prompt, "Password: ")
		defer fmt.Fprintln(prompt)
		return term.ReadPassword(int(file.Fd()))
	}
	text, err := io.ReadAll(io.LimitReader(in, 1<<10))
	if err != nil {
		return nil, err
	}
	line, rest, _ := bytes.Cut(text, []byte("\n"))
	if len(rest) > 0 {
		return nil, usage(errors.New("the input has several lines, expected the password alone"))
	}
	return bytes.TrimSuffix(line, []byte("\r")), nil
}
