package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/telemetry"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	last int
	json bool
}

// explainMost is the most refusals that explain shows.
const explainMost = 4096

func newExplain() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain ADMIN [ID]",
		Short: "Say why a request was refused",
		Long: `Explain asks the admin address of a proxy, or of a Go service with
telemetry.Refusals, why it refused a request: what the gate expected, what it
would have accepted, and how full it was. ID is in the refused answer: the member
"refusal" of an HTTP problem, the metadata "refusal" of a gRPC ErrorInfo, the key
"refusal" of the access log. Without ID it explains the newest refusals. A gate
remembers the last ` + strconv.Itoa(live.MostExplained) + `. What a proxy refuses itself (at_once of a rule,
limits, the advice of a guard) has no ID: see its access log and metrics.`,
		Example: `  spillgate explain 127.0.0.1:9090
  spillgate explain 127.0.0.1:9090 5f3a0c1e0000002a`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return fmt.Errorf("%d arguments, expected the admin address of a proxy or a service, such as 127.0.0.1:9090, and at most an ID", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id := ""
			if len(args) == 2 {
				id = args[1]
			}
			return runExplain(cmd.Context(), cmd.OutOrStdout(), args[0], id, f)
		},
	}
	cmd.Flags().IntVar(&f.last, "last", 10, "without ID, how many refusals to explain")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func runExplain(ctx context.Context, out io.Writer, admin, id string, f explainFlags) error {
	var mistakes []error
	if id != "" {
		_, err := live.ParseRefusalID(id)
		mistakes = append(mistakes, err)
	}
	if f.last < 1 || f.last > explainMost {
		mistakes = append(mistakes, fmt.Errorf("--last is %d, expected 1 to %d", f.last, explainMost))
	}
	source, err := openTop(admin, time.Second)
	if err == nil {
		defer source.Close()
	}
	at, ok := source.(*topAdmin)
	if err == nil && !ok {
		err = fmt.Errorf("%q: expected the host:port of an admin address", admin)
	}
	if err := usage(append(mistakes, err)...); err != nil {
		return err
	}
	query := url.Values{"refusal": {id}}
	if id == "" {
		query = url.Values{"n": {strconv.Itoa(f.last)}}
	}
	ctx, cancel := context.WithTimeout(ctx, topTimeout)
	defer cancel()
	text, err := at.getWith(ctx, telemetry.PathRefusals, query)
	switch {
	case errors.Is(err, errNoPage) && id != "":
		return fmt.Errorf("no gate at %s remembers the refusal %s: each remembers its newest %d, and a Go service tells of them if it serves telemetry.Refusals", admin, id, live.MostExplained)
	case err != nil && !errors.Is(err, errNoPage):
		return err
	}
	var all []telemetry.Refused
	if err != nil || json.Unmarshal(text, &all) != nil { // a service may serve its metrics at every path
		return fmt.Errorf("%s has no page %s: a proxy has it at its admin address, and a Go service if it serves telemetry.Refusals", admin, telemetry.PathRefusals)
	}
	if f.json {
		_, err := out.Write(text)
		return err
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no gate has refused a request; what a proxy refuses by at_once, limits or a guard's advice is in its access log and metrics alone")
		return err
	}
	var lines strings.Builder
	for i := range all {
		printRefused(&lines, &all[i])
	}
	return writeWrapped(out, lines.String(), len("  capacity   "))
}

// because says in words what each reason means. The FAQ says what to do about it.
var because = map[string]string{
	"expired":    "the deadline had passed",
	"infeasible": "too little time was left before the deadline",
	"delay":      "the wait would have been too long for the objective, or was",
	"queue_full": "the queue was full",
	"share":      "the client had more than its share while others waited",
	"rate":       "the workflow was over its rate",
	"draining":   "the server was shutting down",
	"canceled":   "the caller gave up while the request waited",
	"culprit":    "a request of this kind was blocking others",
}

// why is because of one refusal, as far as its facts tell more.
func why(r *telemetry.Refused) string {
	switch {
	case r.Of.Long:
		return "requests like it mostly take longer than the objective, and as many of them as may had begun"
	case r.Reason == work.Share.String() && r.Credits != nil && r.Credits.Over:
		return "the client sent more than its window while others waited"
	}
	return because[r.Reason]
}

func printRefused(out io.Writer, r *telemetry.Refused) {
	seconds := func(s float64) string {
		return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond).String()
	}
	verb := "refused"
	if r.Would {
		verb = "would have been refused"
	}
	workflow := r.Of.Workflow
	if workflow == "" {
		workflow = "default"
	}
	deadline := "none"
	if r.Times.Left != nil {
		deadline = seconds(*r.Times.Left) + " after arrival"
	}
	client := "without credits"
	if r.Credits != nil {
		client = fmt.Sprintf("window of %d credits", r.Credits.Window)
		if r.Credits.Over {
			client += ", exceeded"
		}
	}
	fmt.Fprintf(out, `%v %s at %s by gate %s: %s (%s)
  wait       expected %s, accepted at most %s; in the queue %s, at the client before %s
  time       objective %s, of which %s must be left at the start; deadline %s
  capacity   %d of %d slots in use, %d waiting of at most %d
  request    workflow %s, class %s, priority %d, attempt %d; client: %s
`,
		r.ID, verb, r.At.Local().Format("2006-01-02 15:04:05.000"), r.Gate, r.Reason, why(r),
		seconds(r.Times.Expected), seconds(r.Times.Accepted), seconds(r.Times.Queued), seconds(r.Times.Waited),
		seconds(r.Times.Objective), seconds(r.Times.Need), deadline,
		r.Places.Running, r.Places.Limit, r.Places.Waiting, r.Places.QueueLimit,
		workflow, r.Of.Class, r.Of.Priority, r.Of.Attempt+1, client)
}
