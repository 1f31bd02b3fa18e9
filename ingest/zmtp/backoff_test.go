package zmtp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoffDoublesWithJitter(t *testing.T) {
	b := Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	for round := range 2 {
		differ := false
		for i, whole := range []time.Duration{100, 200, 400, 800, 1000, 1000, 1000} {
			whole *= time.Millisecond
			d := b.Next()
			if d < whole/2 || d > whole {
				t.Fatalf("round %d, attempt %d: %v is not within half and whole of %v", round, i, d, whole)
			}
			differ = differ || d != whole
		}
		if !differ {
			t.Fatal("no jitter")
		}
		b.Reset()
	}
}

func TestBackoffDefaults(t *testing.T) {
	var b Backoff
	if d := b.Next(); d < DefaultBackoffMin/2 || d > DefaultBackoffMin {
		t.Fatal(d)
	}
	for range 100 {
		if d := b.Next(); d > DefaultBackoffMax {
			t.Fatal(d)
		}
	}
}

func TestBackoffWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Backoff{Min: time.Hour, Max: 8 * time.Hour}
		for _, whole := range []time.Duration{1, 2, 4, 8, 8} {
			whole *= time.Hour
			start := time.Now()
			if err := b.Wait(context.Background()); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start); d < whole/2 || d > whole {
				t.Fatalf("waited %v, want half to whole of %v", d, whole)
			}
		}
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("enough"))
		defer cancel()
		start := time.Now()
		if err := b.Wait(ctx); err == nil || err.Error() != "enough" {
			t.Fatalf("got %v, want the context's cause", err)
		}
		if d := time.Since(start); d != time.Minute {
			t.Fatalf("the context ended the wait after %v", d)
		}
	})
}
