package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/cairn-kv/cairn/engine/residency"
)

// Timing of a Watcher.
const (
	lookEvery    = time.Second      // at the file
	mendEvery    = 5 * time.Second  // what the file says and the registry has lost, or could not do
	attemptLimit = 30 * time.Second // for one registration
	atOnce       = 8                // registrations side by side
	maxFile      = 8 << 20          // bytes
)

// Watcher keeps the registry as a file says: what appears in it is registered,
// what leaves it is released, what changes is released and registered anew. Of
// a file that cannot be read, or has anything wrong in it, nothing is taken.
//
// The file is read whole every second, so that it does not matter how it is
// replaced (written over, renamed into place, a link changed as Kubernetes
// does).
type Watcher struct {
	r    *Registrar
	path string
	log  *slog.Logger

	// Of the goroutine of Run.
	text     []byte
	read     bool              // text is what the file last held
	declared map[string]Worker // what the file says
	mended   time.Time         // when what failed was last tried again
	told     map[string]string // problems that were logged, by worker or ""

	mu     sync.Mutex
	held   map[string]bool // what the file registered: only that is released
	status FileStatus
}

// FileStatus describes a watched file.
type FileStatus struct {
	Path string
	// Loaded is when its present content was taken; zero if none ever was.
	Loaded  time.Time
	Workers int // that it declares
	// Problem says why the file as it is was not taken, "" if it was; Failed are
	// workers that could not be registered, with the reason.
	Problem string
	Failed  map[string]string
}

// NewWatcher makes a Watcher of the JSON file at path. See ParseFile.
func NewWatcher(r *Registrar, path string, log *slog.Logger) *Watcher {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{r: r, path: path, log: log, declared: map[string]Worker{}, told: map[string]string{}, held: map[string]bool{}, status: FileStatus{Path: path}}
}

// Status describes the file as it was last looked at. It may be called from any
// goroutine.
func (w *Watcher) Status() FileStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.status
	s.Failed = maps.Clone(s.Failed)
	return s
}

// Run watches until ctx ends, then releases what the file had registered. It
// runs once.
func (w *Watcher) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		w.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	w.release(end, slices.Sorted(maps.Keys(w.declared)))
}

// look takes the file if it has changed, and mends what is not as it says.
func (w *Watcher) look(ctx context.Context) {
	text, err := readFile(w.path)
	switch {
	case err != nil:
		w.refuse(err)
		w.read = false
	case !w.read || !bytes.Equal(text, w.text):
		w.text, w.read = text, true
		all, err := ParseFile(text)
		for i := 0; err == nil && i < len(all); i++ {
			if bad := all[i].check(); bad != nil {
				err = fmt.Errorf("worker %q: %w", all[i].ID, bad)
			}
		}
		if err != nil {
			w.refuse(err)
			break
		}
		w.take(ctx, all)
		return
	}
	if time.Since(w.mended) >= mendEvery {
		w.mend(ctx)
	}
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, err
}

// refuse keeps what was taken before.
func (w *Watcher) refuse(err error) {
	w.mu.Lock()
	w.status.Problem = err.Error()
	w.mu.Unlock()
	if w.told[""] != err.Error() {
		w.told[""] = err.Error()
		w.log.Error("the file of workers is not taken, what it said before holds", "file", w.path, "error", err)
	}
}

// take makes the registry what the file says: first all releases, so that an
// owner can move from one worker to another, then all registrations.
func (w *Watcher) take(ctx context.Context, all []Worker) {
	next := make(map[string]Worker, len(all))
	for _, worker := range all {
		next[worker.ID] = worker
	}
	var gone, fresh []string
	for id, old := range w.declared {
		if now, stays := next[id]; !stays || !reflect.DeepEqual(old, now) {
			gone = append(gone, id)
		}
	}
	for id, now := range next {
		// What failed before may find room now that others leave.
		if old, known := w.declared[id]; !known || !reflect.DeepEqual(old, now) || w.status.Failed[id] != "" {
			fresh = append(fresh, id)
		}
	}
	w.declared = next
	delete(w.told, "")
	w.mu.Lock()
	w.status.Loaded, w.status.Workers, w.status.Problem = time.Now(), len(next), ""
	w.mu.Unlock()
	w.log.Info("file of workers taken", "file", w.path, "workers", len(next), "released", len(gone), "registered", len(fresh))
	slices.Sort(gone)
	slices.Sort(fresh)
	w.release(ctx, gone)
	w.register(ctx, fresh)
	w.mended = time.Now()
}

// mend registers what the file says and the registry has not, and once more
// what is quarantined, which attaches it again.
func (w *Watcher) mend(ctx context.Context) {
	w.mended = time.Now()
	has := map[string]bool{}
	for _, reg := range w.r.Registrations() {
		has[reg.ID] = reg.Complete
	}
	if c := w.r.Control(); c != nil {
		for _, s := range c.Slots() {
			if s.State == residency.Quarantined {
				has[s.Lease] = false
			}
		}
	}
	var lost []string
	for _, id := range slices.Sorted(maps.Keys(w.declared)) {
		if !has[id] {
			lost = append(lost, id)
		}
	}
	w.register(ctx, lost)
}

// each calls f for every id, some side by side, and keeps what failed.
func (w *Watcher) each(ctx context.Context, ids []string, f func(ctx context.Context, id string) error) {
	var group sync.WaitGroup
	places := make(chan struct{}, atOnce)
	errs := make([]error, len(ids))
	for i, id := range ids {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(ctx, attemptLimit)
			defer cancel()
			errs[i] = f(ctx, id)
		})
	}
	group.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, id := range ids {
		w.note(ctx, id, errs[i])
	}
}

// note keeps how a worker stands; every problem is logged once. mu is held.
func (w *Watcher) note(ctx context.Context, id string, err error) {
	if err == nil {
		delete(w.told, id)
		delete(w.status.Failed, id)
		return
	}
	if _, wanted := w.declared[id]; wanted {
		if w.status.Failed == nil {
			w.status.Failed = map[string]string{}
		}
		w.status.Failed[id] = err.Error()
	} else {
		delete(w.status.Failed, id)
	}
	if text := err.Error(); ctx.Err() == nil && w.told[id] != text {
		w.told[id] = text
		w.log.Error("a worker of the file is not as it says", "file", w.path, "worker", id, "error", err)
	}
}

func (w *Watcher) release(ctx context.Context, ids []string) {
	w.each(ctx, ids, func(ctx context.Context, id string) error {
		w.mu.Lock()
		held := w.held[id]
		delete(w.held, id)
		w.mu.Unlock()
		if !held {
			return nil // it never came to be, and what has its id may be another's
		}
		err := w.r.Release(ctx, id)
		if errors.Is(err, residency.ErrUnknownLease) {
			return nil // it is gone already
		}
		return err
	})
}

func (w *Watcher) register(ctx context.Context, ids []string) {
	w.each(ctx, ids, func(ctx context.Context, id string) error {
		_, err := w.r.Register(ctx, w.declared[id])
		if err == nil {
			w.mu.Lock()
			w.held[id] = true
			w.mu.Unlock()
		}
		return err
	})
}
