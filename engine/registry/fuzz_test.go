package registry

import (
	"errors"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/engine/validate"
)

// FuzzParse: whatever comes is refused with a field and a reason, or is a
// worker that can be laid before the control plane.
func FuzzParse(f *testing.F) {
	f.Add([]byte(goodBody))
	f.Add([]byte(`{"model":"m","ranks":[{"dp_rank":"0","raw_zmq_endpoint":"tcp://h:5557"}]}`))
	f.Add([]byte(strings.ReplaceAll(goodBody, `"`, ``)))
	f.Add([]byte(strings.Replace(goodBody, `"model"`, `"metadata":{"dynamo_state_agent":{"publish_inventory":true}},"settings":{"mode":1},"model"`, 1)))
	f.Fuzz(func(t *testing.T, body []byte) {
		w, err := ParseWorker("w1", body)
		if err == nil {
			err = w.check()
		}
		if err != nil {
			var list validate.Errors
			if !errors.As(err, &list) || len(list) == 0 {
				t.Fatalf("%v is no validate.Errors", err)
			}
			for _, e := range list {
				if e.Field == "" || e.Why == "" || e.Want == "" || e.Rule.ID() == "unknown" {
					t.Fatalf("%#v does not say what is wrong where", e)
				}
			}
			return
		}
		for i := range w.Ranks {
			for _, ep := range w.Ranks[i].Endpoints {
				if _, err := validate.Endpoint("", ep); err != nil {
					t.Fatalf("rank %d is accepted: %v", i, err)
				}
			}
		}
		if w.Protocol.Owned() {
			if all := w.intents(residency.Host{Instance: 7}); len(all) != len(w.Ranks) || all[0].BlockSize < 1 {
				t.Fatalf("intents %+v", all)
			}
		} else if s, err := w.source(); err == nil {
			if err := s.Validate(); err != nil {
				t.Fatalf("a source that the engine refuses: %v", err)
			}
		}
	})
}
