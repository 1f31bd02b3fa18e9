package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"
	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// TestOverARealEngine goes the whole way: a publisher's bytes in, JSON out.
func TestOverARealEngine(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	e, err := engine.Open(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(ctx)
	ts := httptest.NewServer(newServer(t, Options{Engine: e}).Handler())
	defer ts.Close()
	defer ts.Client().CloseIdleConnections()

	for _, id := range []string{"w1", "w2"} {
		pub, err := zmtp.Listen(ctx, "tcp://127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer pub.Close()
		err = e.AddSource(ctx, engine.Source{ID: id, Model: "m", Endpoint: pub.Addr(),
			Hint: &engine.HintConfig{WorkerType: "agg", Endpoint: "tcp://10.0.0.1:23280"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := pub.WaitSubscribers(ctx, 1); err != nil {
			t.Fatal(err)
		}
		blocks := 2
		if id == "w2" {
			blocks = 0
		}
		if err := pub.Send(nil, binary.BigEndian.AppendUint64(nil, 0), stored(blocks)); err != nil {
			t.Fatal(err)
		}
		if err := e.WaitApplied(ctx, id, 0, 0); err != nil {
			t.Fatal(err)
		}
	}

	post := func(path, body string) (out map[string]json.RawMessage) {
		t.Helper()
		resp, err := ts.Client().Post(ts.URL+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %s %v %v", path, resp.Status, out, err)
		}
		return out
	}
	match := post("/v1/match", `{"model":"m","tokens":[1,2,3,4,5,6,7,8,9]}`)
	for _, want := range []string{`"source":"w1"`, `"block_size":4`, `"tokens":{"device":8,"host":0,"any":8,"host_extension":0}`,
		`"state":"exact","seq":0,"applied":[0,0]`, `"epoch":1`} {
		if !strings.Contains(string(match["holders"]), want) {
			t.Errorf("no %s in %s", want, match["holders"])
		}
	}
	hint := post("/v1/hint", `{"model":"m","tokens":[1,2,3,4,5,6,7,8,9],"target":{"source":"w2","rank":0},"message_id":"req-42"}`)
	want := `{"protocol_version":"0.1","message_id":"req-42","actions":[{"action_id":"a1","action_type":"kv.fetch","action_version":"1.0",` +
		`"payload":{"source_control_endpoint":"tcp://10.0.0.1:23280","block_hashes":[18446744073709551615,18446744073709551614]}}]}`
	if got := string(hint["hint"]); got != want || fmt.Sprintf("%s %s %s", hint["source"], hint["depth"], hint["threshold"]) !=
		`{"source":"w1","rank":0,"domain":"worker"} 2 0` {
		t.Errorf("\n got %s %s\nwant %s", got, hint, want)
	}
	if at := fmt.Sprintf("%s %s", hint["applied"], hint["target"]); at != `[0,0] {"applied":[0,0]}` {
		t.Errorf("the hint rests on %s", at)
	}
	if none := post("/v1/hint", `{"model":"m","tokens":[1,2,3,4],"target":{"source":"w1"}}`); string(none["reason"]) != `"no_longer_source"` {
		t.Errorf("%s", none)
	}
}

// stored is a batch that stores a chain of four-token blocks, as SGLang writes
// it, with the highest names first.
func stored(blocks int) []byte {
	b := msgp.AppendArrayHeader(nil, 3)
	b = msgp.AppendFloat64(b, 0)
	b = msgp.AppendArrayHeader(b, 1)
	b = msgp.AppendArrayHeader(b, 7)
	b = msgp.AppendString(b, "BlockStored")
	b = msgp.AppendArrayHeader(b, uint32(blocks))
	for i := range blocks {
		b = msgp.AppendInt64(b, -1-int64(i))
	}
	b = msgp.AppendNil(b)
	b = msgp.AppendArrayHeader(b, uint32(4*blocks))
	for i := range 4 * blocks {
		b = msgp.AppendInt(b, i+1)
	}
	b = msgp.AppendInt(b, 4)
	b = msgp.AppendNil(b)
	b = msgp.AppendString(b, "GPU")
	return msgp.AppendInt(b, 0)
}
