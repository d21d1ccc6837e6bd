package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Role names the environment variable in which a program tells a child, which is
// the program itself again, what to do.
//
//	Start ──order as JSON──▶ Play ─ Answer ──a line──▶ ReadAnswer
type Role[Order any] string

// Start starts a child as Start does and gives it an order.
func (r Role[Order]) Start(ctx context.Context, o Order, spec Spec) (*Child, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("proc: the order: %w", err)
	}
	spec.Env = append(spec.Env, string(r)+"="+string(text))
	return Start(ctx, spec)
}

// Play obeys the order and ends the process, with status 1 and a message that
// begins with name after an error, if this process is a child of that role, and
// returns otherwise. It is called first in main.
func (r Role[Order]) Play(name string, obey func(Order) error) {
	text, ok := os.LookupEnv(string(r))
	if !ok {
		return
	}
	ExitWithParent()
	var o Order
	err := json.Unmarshal([]byte(text), &o)
	if err != nil {
		err = fmt.Errorf("the order: %w", err)
	} else {
		err = obey(o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

const answerPrefix = "answer "

// Answer writes what a child found to its standard output, as a line for
// ReadAnswer.
func Answer(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Println(answerPrefix + string(line))
	return err
}

// ReadAnswer finds a child's answer in all that it wrote to its standard output
// and reads it into v.
func ReadAnswer(output string, v any) error {
	for line := range strings.Lines(output) {
		if text, ok := strings.CutPrefix(line, answerPrefix); ok {
			if err := json.Unmarshal([]byte(text), v); err != nil {
				return fmt.Errorf("the answer: %w", err)
			}
			return nil
		}
	}
	return errors.New("no answer")
}
