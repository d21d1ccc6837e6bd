package main

import (
	"bytes"
	"strings"
	"testing"
)

// The manual has every command that can be run with every flag, and no text that man
// would take for a request.
func TestManual(t *testing.T) {
	var page, errors bytes.Buffer
	if code := run(t.Context(), subcommands(), []string{"man"}, &page, &errors); code != exitOK {
		t.Fatal(errors.String())
	}
	for _, want := range []string{".SS proxy [flags]", ".SS lab run NAME [flags]", ".SS guard replay AUDIT.jsonl [flags]", `.B \-\-slo duration`, `.B \-\-upstream url`} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for line := range strings.Lines(page.String()) {
		if request, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, ".") &&
			!strings.Contains(" .TH .SH .SS .TP .PP .B .I .nf .fi ", " "+request+" ") {
			t.Errorf("man takes this line for a request: %q", line)
		}
	}
}

// Misspelt names get the name that was probably meant.
func TestSuggestions(t *testing.T) {
	for args, want := range map[string]string{
		"proxi":                   `unknown command "proxi"; did you mean proxy?`,
		"lab rum":                 `unknown command "rum"; did you mean run?`,
		"lab run breakwater/spik": `there is no experiment "breakwater/spik"; did you mean breakwater/spike?`,
		"completion tcsh":         `unknown command "tcsh"`,
		"completion fihs":         `did you mean fish?`,
		"place where":             "0 arguments, expected 2: TOPIC PUBLISHER",
		"guard replay":            "0 arguments, expected 1: AUDIT.jsonl",
		"broker extra":            `unexpected argument "extra"`,
		"proxy --lisen x":         `unknown flag: --lisen; did you mean --listen?`,
		"proxy --zzz x":           "unknown flag: --zzz\n",
	} {
		var out, errors bytes.Buffer
		if code := run(t.Context(), subcommands(), strings.Fields(args), &out, &errors); code != exitUsage || !strings.Contains(errors.String(), want) {
			t.Errorf("spillgate %s: exit code %d\n%sexpected %s", args, code, errors.String(), want)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var out, errors bytes.Buffer
		if code := run(t.Context(), subcommands(), []string{"completion", shell}, &out, &errors); code != exitOK || out.Len() < 1000 {
			t.Errorf("completion %s: exit code %d, %d bytes\n%s", shell, code, out.Len(), errors.String())
		}
	}
}

// Shells complete the values of flags that have few, and each of them is one that the command takes.
func TestFlagValues(t *testing.T) {
	for args, want := range map[string]string{
		"proxy --mode":        "off\nmonitor\nenforce\n",
		"guard --log-level":   "debug\ninfo\nwarn\nerror\n",
		"broker --anonymous":  "loopback\nanywhere\nnowhere\n",
		"lab world --policy":  "spillgate\n",
		"broker --log-format": "text\njson\n",
	} {
		var out, errors bytes.Buffer
		run(t.Context(), subcommands(), append([]string{"__complete"}, append(strings.Fields(args), "")...), &out, &errors)
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s completes to %q, expected %q", args, &out, want)
		}
	}
}
