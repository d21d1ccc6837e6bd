package classify_test

import (
	"fmt"
	"net/http"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/httpgate"
)

// Rules say what a request is; the first one that matches counts.
func Example() {
	interactive := spillgate.Interactive
	rules, err := classify.New(classify.Config{
		Workflows: map[string]classify.Defaults{"checkout": {}, "reports": {Priority: 20}},
		Rules: []classify.Rule{
			{Match: classify.Match{Path: []string{"/checkout/"}}, Set: classify.Set{Workflow: "checkout", Class: &interactive}},
			{Match: classify.Match{Path: []string{"/reports/"}}, Set: classify.Set{Workflow: "reports"}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	classifier := httpgate.Classify(rules.HTTP(nil, nil)) // an option of httpgate.Handler
	_ = classifier

	request, _ := http.NewRequest("GET", "http://shop/reports/daily", nil)
	tags := rules.HTTP(nil, nil)(request, spillgate.Tags{})
	fmt.Println(tags.Workflow, tags.Priority)
	// Output:
	// reports 20
}
