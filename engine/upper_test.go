package engine

import "testing"

// A source may say that its engine reuses less than events tell.
func TestUpperBounds(t *testing.T) {
	e := openEngine(t, Options{})
	for id, change := range map[string]func(*Source){
		"plain":  nil,
		"hybrid": func(s *Source) { s.Hybrid = true },
		"keyed":  func(s *Source) { s.InvisibleKeys = true },
	} {
		addWorker(t, e, id, "127.0.0.1", 1, dialects[1], change).say(t, event{names: []uint64{1, 2}, tokens: count(1, 8), size: 4, medium: "GPU"})
	}
	var a Answer
	if err := e.Match(&Query{Model: "m", Tokens: count(1, 8)}, &a); err != nil {
		t.Fatal(err)
	}
	for _, h := range a.Holders {
		if h.UpperBound != (h.Source != "plain") || h.Tokens.Device != 8 {
			t.Errorf("%+v", h)
		}
	}
	if len(a.Holders) != 3 {
		t.Errorf("%d holders", len(a.Holders))
	}
}
