package page

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/demo/demotest"
	"github.com/spillgate/spillgate/internal/demo/stage"
	"github.com/spillgate/spillgate/internal/needs"
)

// browser starts a headless Chromium and returns its context and what it
// complained about so far.
func browser(t *testing.T) (context.Context, func() []string) {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(needs.Program(t, "chromium", "chromium-browser", "google-chrome")),
		chromedp.UserDataDir(t.TempDir()),
	}
	for _, flag := range []string{"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run",
		"disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); cancel() })

	var mu sync.Mutex
	var complaints []string
	complain := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		complaints = append(complaints, text)
	}
	err := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			complain(fmt.Sprintf("exception: %+v", *ev.ExceptionDetails))
		case *runtime.EventConsoleAPICalled:
			if ev.Type == runtime.ConsoleAPICalledTypeError {
				complain("console.error")
			}
		case *log.EventEntryAdded:
			if ev.Entry.Level == log.EntryLevelError {
				complain(ev.Entry.Text + " " + ev.Entry.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), complaints...)
	}
}

// shown is what the test reads off the page.
type shown struct {
	Goodput map[string]string // by act
	P99     map[string]string
	Drawn   map[string]int    // length of all paths, by act and chart
	Tenants map[string]string // goodput, by tenant
	Turns   []string          // the rows of the tenants' table
	Orders  map[string]string // mean, by order and kind
	Both    []string          // the rows of the checkouts' table
	Runs    map[string]string // goodput and what became of the report, by run of the culprit's act
	Feeds   map[string]string // the same of the broker's act
	Summary string
	Result  bool
	Skewed  int  // charts that were drawn for another width than they have
	Wide    bool // something is wider than the window
}

const read = `(() => {
	const out = { Goodput: {}, P99: {}, Drawn: {}, Tenants: {}, Turns: [], Orders: {}, Both: [], Runs: {}, Feeds: {}, Summary: document.getElementById("summary").textContent,
		Result: !document.getElementById("result").hidden,
		Skewed: [...document.querySelectorAll("figure svg")].filter((e) => e.clientWidth && Math.abs(e.viewBox.baseVal.width - e.clientWidth) > 1).length,
		Wide: document.documentElement.scrollWidth > document.documentElement.clientWidth };
	for (const section of document.querySelectorAll("#acts > section")) {
		const name = section.id.replace("act-", "");
		out.Goodput[name] = section.querySelector("[data-tile=goodput]").firstChild.textContent;
		out.P99[name] = section.querySelector("[data-tile=p99]").firstChild.textContent;
		for (const figure of section.querySelectorAll("figure")) {
			out.Drawn[name + " " + figure.dataset.chart] = [...figure.querySelectorAll("path")].reduce((n, p) => n + p.getAttribute("d").length, 0);
		}
	}
	for (const section of document.querySelectorAll("#each > section")) {
		const name = section.id.replace("tenant-", "");
		out.Tenants[name] = section.querySelector("[data-tile=goodput]").firstChild.textContent;
		for (const figure of section.querySelectorAll("figure")) {
			out.Drawn["tenant " + name + " " + figure.dataset.chart] = [...figure.querySelectorAll("path")].reduce((n, p) => n + p.getAttribute("d").length, 0);
		}
	}
	for (const section of document.querySelectorAll("#orders > section")) {
		const name = section.id.replace("order-", "");
		for (const kind of ["checkouts", "reads", "weight"]) out.Orders[name + " " + kind] = section.querySelector("[data-tile=" + kind + "]").firstChild.textContent;
		for (const figure of section.querySelectorAll("figure")) {
			out.Drawn[name + " " + figure.dataset.chart] = [...figure.querySelectorAll("path")].reduce((n, p) => n + p.getAttribute("d").length, 0);
		}
	}
	for (const section of document.querySelectorAll("#runs > section, #feeds > section")) {
		const name = section.id.replace("run-", "").replace("feed-", "");
		(section.id.startsWith("run-") ? out.Runs : out.Feeds)[name] = section.querySelector("[data-tile=goodput]").firstChild.textContent + " " + section.querySelector("[data-sheds]").textContent;
		for (const figure of section.querySelectorAll("figure")) {
			out.Drawn[section.id.replace("-", " ") + " " + figure.dataset.chart] = [...figure.querySelectorAll("path")].reduce((n, p) => n + p.getAttribute("d").length, 0);
		}
	}
	for (const row of document.querySelectorAll("#both tbody tr")) out.Both.push([...row.children].map((cell) => cell.textContent).join("|"));
	for (const row of document.querySelectorAll("#turns tbody tr")) out.Turns.push([...row.children].map((cell) => cell.textContent).join("|"));
	return out;
})()`

// The page follows the feed: charts grow, figures move, and in the end words and
// figures are those of the result.
func TestPageInBrowser(t *testing.T) {
	ctx, complaints := browser(t)
	s, err := Serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Show(demotest.Searching(t, 5))
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 800), chromedp.Navigate(s.URL())); err != nil {
		t.Fatal(err)
	}
	// see waits until the page shows a state, and reads it.
	see := func(state demo.State) shown {
		t.Helper()
		s.Show(state)
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool](fmt.Sprintf(`document.body.dataset.number === "%d"`, state.Number), chromedp.WithPollingInterval(20*time.Millisecond))); err != nil {
			t.Fatalf("state %d is not shown: %v; %v", state.Number, err, complaints())
		}
		v, err := chromedp.Run(ctx, chromedp.Evaluate[shown](read))
		if err != nil {
			t.Fatal(err)
		}
		if v.Skewed > 0 {
			t.Errorf("state %d: %d charts were drawn for another width", state.Number, v.Skewed)
		}
		return v
	}

	tries, err := chromedp.Run(ctx, chromedp.Poll[int](`document.querySelectorAll(".try").length`))
	if err != nil || tries != 5 {
		t.Errorf("%d tries shown, %v; want 5", tries, err)
	}
	early, late := see(demotest.At(t, 0, 4)), see(demotest.At(t, 0, 15))
	for _, chart := range []string{"plain load", "plain latency"} {
		if early.Drawn[chart] == 0 || late.Drawn[chart] <= early.Drawn[chart] {
			t.Errorf("%s: paths of %d and later %d characters, want them to grow", chart, early.Drawn[chart], late.Drawn[chart])
		}
	}
	if early.Goodput["plain"] == late.Goodput["plain"] {
		t.Errorf("goodput stays at %s", early.Goodput["plain"])
	}
	silent := demotest.At(t, 0, 15)
	silent.Number++
	last := &silent.Acts[0].Points[len(silent.Acts[0].Points)-1]
	last.Goodput, last.P50MS, last.P99MS = 0, 0, 0
	if got := see(silent); got.P99["plain"] != "none" || strings.Contains(got.Summary, "with a p99") {
		t.Errorf("where nothing was served the p99 is %q, and the words are %q", got.P99["plain"], got.Summary)
	}
	if gated := see(demotest.At(t, 1, 12)); gated.Drawn["gated sheds"] == 0 || gated.Result {
		t.Errorf("in the gated act: %+v, want a chart of refusals and no result yet", gated)
	}

	soon, burst := see(demotest.Sharing(t, 2)), see(demotest.Sharing(t, 8))
	for _, chart := range []string{"tenant a load", "tenant a latency", "tenant b load"} {
		if soon.Drawn[chart] == 0 || burst.Drawn[chart] <= soon.Drawn[chart] {
			t.Errorf("%s: paths of %d and later %d characters, want them to grow", chart, soon.Drawn[chart], burst.Drawn[chart])
		}
	}
	if len(soon.Turns) != 0 || len(burst.Turns) != 2 { // a and b before
		t.Errorf("rows of the tenants' table are %q and later %q, want none and two", soon.Turns, burst.Turns)
	}

	first, second := see(demotest.Shopping(t, 0, 4)), see(demotest.Shopping(t, 1, 5))
	if first.Drawn["fifo checkouts"] == 0 || second.Drawn["fifo checkouts"] <= first.Drawn["fifo checkouts"] || second.Drawn["shares weights"] == 0 || second.Drawn["fifo weights"] != 0 {
		t.Errorf("paths are %v and later %v, want them to grow, and weights with shares alone", first.Drawn, second.Drawn)
	}
	if len(first.Both) != 0 || len(second.Both) != 4 || !strings.HasSuffix(second.Both[0], "|–|–") {
		t.Errorf("rows of the checkouts' table are %q and later %q, want none, and four with nothing of shares yet", first.Both, second.Both)
	}

	held, freed := see(demotest.Seized(t, 0, 3)), see(demotest.Seized(t, 1, 5))
	if held.Drawn["run plain load"] == 0 || freed.Drawn["run plain load"] <= held.Drawn["run plain load"] || freed.Drawn["run gated load"] == 0 || held.Runs["gated"] != "" {
		t.Errorf("paths are %v and later %v, want them to grow", held.Drawn, freed.Drawn)
	}

	flooded, limited := see(demotest.Flooded(t, 0, 3)), see(demotest.Flooded(t, 1, 3))
	if flooded.Drawn["feed plain load"] == 0 || limited.Drawn["feed plain load"] <= flooded.Drawn["feed plain load"] || limited.Drawn["feed limited latency"] == 0 || flooded.Feeds["limited"] != "" {
		t.Errorf("paths are %v and later %v, want them to grow", flooded.Drawn, limited.Drawn)
	}

	end := demotest.Recorded(t)
	end.Number = 1000
	got := see(end)
	if !got.Result {
		t.Error("the result is hidden at the end")
	}
	for _, act := range end.Acts {
		o := act.Outcome.Steps[end.Overload()]
		if want := grouped(o.Goodput) + "/s"; got.Goodput[act.Name] != want {
			t.Errorf("%s: goodput %q, want %q", act.Name, got.Goodput[act.Name], want)
		}
		if want := grouped(o.P99MS) + " ms"; got.P99[act.Name] != want {
			t.Errorf("%s: p99 %q, want %q", act.Name, got.P99[act.Name], want)
		}
		for _, want := range []string{
			fmt.Sprintf("the %s services answer %s of %s requests per second", act.Name, grouped(o.Goodput), grouped(o.Offered)),
			fmt.Sprintf("%s were refused and %s timed out", grouped(float64(act.Totals.Refused)), grouped(float64(act.Totals.TimedOut))),
		} {
			if !strings.Contains(got.Summary, want) {
				t.Errorf("the words are %q, want in them %q", got.Summary, want)
			}
		}
	}
	row := 0
	for _, tenant := range end.Tenants.Each {
		during := tenant.Outcome.Steps[demo.DuringBurst]
		if want := grouped(during.Goodput) + "/s"; got.Tenants[tenant.Name] != want {
			t.Errorf("tenant %s: goodput %q, want %q", tenant.Name, got.Tenants[tenant.Name], want)
		}
		if want := fmt.Sprintf("Tenant %s had, during the burst, %s of %s requests", tenant.Name, grouped(during.Goodput), grouped(during.Offered)); !strings.Contains(got.Summary, want) {
			t.Errorf("the words are %q, want in them %q", got.Summary, want)
		}
		for step, name := range []string{"before", "during"} {
			o := tenant.Outcome.Steps[step]
			if o.Offered == 0 {
				continue
			}
			want := fmt.Sprintf("%s %s|%s|%s|", tenant.Name, name, grouped(o.Offered), grouped(o.Goodput))
			if row >= len(got.Turns) || !strings.HasPrefix(got.Turns[row], want) {
				t.Errorf("rows of the tenants' table are %q, want row %d to begin with %q", got.Turns, row, want)
			}
			row++
		}
	}
	for i, kind := range []string{stage.Checkouts, stage.Reads} {
		var means []float64
		for j := range end.Checkout.Orders {
			o := &end.Checkout.Orders[j]
			f, _ := o.Flood(kind)
			means = append(means, f.MeanMS)
			if want := grouped(f.MeanMS) + " ms"; got.Orders[o.Name+" "+kind] != want {
				t.Errorf("%s of %s: %q, want %q", kind, o.Name, got.Orders[o.Name+" "+kind], want)
			}
			if want := "with " + o.Name + ", checkouts took"; !strings.Contains(got.Summary, want) {
				t.Errorf("the words are %q, want in them %q", got.Summary, want)
			}
		}
		want := fmt.Sprintf("%s, mean|%s ms|%s ms|", kind, grouped(means[0]), grouped(means[1]))
		if len(got.Both) != 4 || !strings.HasPrefix(got.Both[2*i], want) {
			t.Errorf("rows of the checkouts' table are %q, want row %d to begin with %q", got.Both, 2*i, want)
		}
	}
	for _, r := range end.Culprit.Runs {
		o, _ := r.During(demo.DuringReport)
		if want := grouped(o.Goodput) + "/s "; !strings.HasPrefix(got.Runs[r.Name], want) {
			t.Errorf("%s: %q, want it to begin with %q", r.Name, got.Runs[r.Name], want)
		}
		want := fmt.Sprintf("The report was %s after %s ms.", r.Report.End, grouped(r.Report.TookMS))
		if r.Named != nil {
			want = fmt.Sprintf("%s was cancelled when it had been there for %s ms", r.Culprit(), grouped(r.Named.AgeMS))
		}
		if !strings.Contains(got.Runs[r.Name], want) || !strings.Contains(got.Summary, want) {
			t.Errorf("%s: %q and in words %q, want %q in both", r.Name, got.Runs[r.Name], got.Summary, want)
		}
	}
	for _, r := range end.Feed.Runs {
		o, _ := r.During(demo.DuringTopic)
		if want := grouped(o.Goodput) + "/s "; !strings.HasPrefix(got.Feeds[r.Name], want) {
			t.Errorf("%s: %q, want it to begin with %q", r.Name, got.Feeds[r.Name], want)
		}
		if want := fmt.Sprintf("Of the flood %s messages were sent and %s came", grouped(float64(r.Flooded.Sent)), grouped(float64(r.Flooded.Came))); !strings.Contains(got.Feeds[r.Name], want) {
			t.Errorf("%s: %q, want %q", r.Name, got.Feeds[r.Name], want)
		}
		if want := fmt.Sprintf("the consumer is done in time with %s of %s messages per second", grouped(o.Goodput), grouped(o.Offered)); !strings.Contains(got.Summary, want) {
			t.Errorf("the words are %q, want in them %q", got.Summary, want)
		}
	}
	feed, err := chromedp.Run(ctx, chromedp.Evaluate[string](`fetch("state.json").then(r => r.json()).then(s => JSON.stringify(s) === JSON.stringify(newest) ? "same" : "different")`, chromedp.EvalAwaitPromise))
	if err != nil || feed != "same" {
		t.Errorf("what the page has and state.json are %s (%v), want the same", feed, err)
	}

	for _, width := range []int64{1280, 360} {
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 800), chromedp.Sleep(100*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if v, err := chromedp.Run(ctx, chromedp.Evaluate[shown](read)); err != nil || v.Wide {
			t.Errorf("%d pixels wide: scrolls sideways (%v)", width, err)
		}
	}

	if bad := complaints(); len(bad) > 0 {
		t.Errorf("the browser complained: %q", bad)
	}

	// The server ends; the page keeps what it shows and does not complain, unless the browser was too busy to take
	// the end of the stream before the server left.
	s.Close()
	if v, err := chromedp.Run(ctx, chromedp.Evaluate[shown](read)); err != nil || v.Summary != got.Summary {
		t.Errorf("after the end the words are %q (%v), want them unchanged", v.Summary, err)
	}
	for _, bad := range complaints() {
		if !strings.Contains(bad, "ERR_INCOMPLETE_CHUNKED_ENCODING") {
			t.Errorf("the browser complained: %q", bad)
		}
	}
}

// grouped writes a number as the page does.
func grouped(v float64) string {
	text := fmt.Sprint(int(math.Floor(v + 0.5))) // half up, as a browser rounds
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
