package nats

import (
	"encoding/json"
	"errors"
	"testing"
)

// Requests are told apart by the words of their subjects.
func TestOperations(t *testing.T) {
	for _, c := range []struct{ subject, operation, stream string }{
		{"$JS.API.INFO", "INFO", ""}, {"$JS.API.STREAM.LIST", "STREAM.LIST", ""}, {"$JS.API.STREAM.CREATE.S", "STREAM.CREATE", "S"},
		{"$JS.API.STREAM.MSG.GET.S", "STREAM.MSG.GET", "S"}, {"$JS.API.CONSUMER.CREATE.S.c.a.>", "CONSUMER.CREATE", "S"}, {"$JS.API.CONSUMER.MSG.NEXT.S.c", "CONSUMER.MSG.NEXT", "S"},
		{"$JS.API.DIRECT.GET.KV_b.$KV.b.x", "DIRECT.GET", "KV_b"},
	} {
		if operation, stream, err := operationOf(c.subject); err != nil || operation != c.operation || stream != c.stream {
			t.Errorf("%s is %s of %s, %v", c.subject, operation, stream, err)
		}
	}
	for subject, code := range map[string]int{"$JS.API.STREAM.INFO.SPILLGATE_LOG": 404, "$JS.API.DIRECT.GET.KV_spillgate-nodes.x": 404, "$JS.API.STREAM.SNAPSHOT.S": 503, "$JS.API.META.LEADER.STEPDOWN": 503,
		"$JS.API.": 503, "$JS.API.INFO.x": 503, "$JS.API.STREAM.CREATE": 503} {
		_, _, err := operationOf(subject)
		if e := (*callError)(nil); !errors.As(err, &e) || e.code != code {
			t.Errorf("%s: %v, expected %d", subject, err, code)
		}
	}
	for subject, ok := range map[string]bool{"$JS.ACK.S.c.1.2.3.4.5": true, "$JS.ACK.SPILLGATE_LOG.c.1.2.3.4.5": false, "$JS.ACK.x.y.SPILLGATE_LOG.c.1.2.3.4.5.z": false, "$JS.FC.KV_spillgate-nodes.c.x": false} {
		if err := checkAck(subject); (err == nil) != ok {
			t.Errorf("%s: %v", subject, err)
		}
	}
}

// Lists leave out the broker's own streams, and a message of a topic without a right does not pass.
func TestVisible(t *testing.T) {
	may := func(filter string) bool { return filter == "a/1" }
	for in, want := range map[string]string{
		`{"type":"io.nats.jetstream.api.v1.stream_names_response","total":3,"offset":0,"limit":1024,"streams":["A","SPILLGATE_LOG","KV_spillgate-nodes"]}`: `"streams":["A"],"total":1,`,
		`{"type":"io.nats.jetstream.api.v1.stream_list_response","total":2,"streams":[{"config":{"name":"SPILLGATE_LOG"}},{"config":{"name":"A"}}]}`:       `"streams":[{"config":{"name":"A"}}],"total":1,`,
		`{"type":"io.nats.jetstream.api.v1.stream_names_response","total":0,"streams":null}`:                                                               `"streams":null,"total":0,`,
	} {
		out, ok := visible([]byte(in), may)
		var all, expected map[string]any
		if json.Unmarshal(out, &all) != nil || !ok {
			t.Fatalf("%s became %s", in, out)
		}
		if err := json.Unmarshal([]byte("{"+want[:len(want)-1]+"}"), &expected); err != nil {
			t.Fatal(err)
		}
		for key := range expected {
			a, _ := json.Marshal(all[key])
			b, _ := json.Marshal(expected[key])
			if string(a) != string(b) {
				t.Errorf("%s became %s", in, out)
			}
		}
	}
	for in, want := range map[string]bool{
		`{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","message":{"subject":"a.1","seq":1}}`: true,
		`{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","message":{"subject":"a.2","seq":1}}`: false,
		`{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","error":{"code":404}}`:                true,
		`{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","message":[]}`:                        false,
		`{"type":"io.nats.jetstream.api.v1.stream_names_response","streams":`:                             false,
		`{"type":"io.nats.jetstream.api.v1.consumer_info_response"}`:                                      true,
		`data of a client`: true,
	} {
		if _, ok := visible([]byte(in), may); ok != want {
			t.Errorf("%s passes: %v", in, ok)
		}
	}
}
