package conformance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cairn-kv/cairn/tree"
)

// Options say how files are played. The zero value is good.
type Options struct {
	// Direct connects publishers and streams inside the process. The code on
	// both sides of the connection is the same.
	Direct bool
	// Shards is the number of index shards. 0 means 1.
	Shards int
	// Timeout bounds one file. 0 means DefaultTimeout.
	Timeout time.Duration
	// NewIndex makes the index of a shard. Nil: tree.New. Tests give the
	// reference model.
	NewIndex func() tree.Interface

	// patience is how long counters and tables may take to become what a file
	// says. What never does runs into it. 0 means five seconds.
	patience time.Duration
	// silence is how long a replay may bring nothing; 0: the engine's default.
	silence time.Duration
}

// DefaultTimeout is the bound of one file: far above what a good one needs.
const DefaultTimeout = 2 * time.Minute

// Run plays files, and all files of folders, in order. What is wrong with a
// file stands in the report; the error is that of ctx.
func Run(ctx context.Context, paths []string, o Options) (*Report, error) {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.patience == 0 {
		o.patience = 5 * time.Second
	}
	report := &Report{}
	for _, path := range paths {
		names, err := expand(path)
		if err != nil {
			report.Files = append(report.Files, &File{Name: path, Error: err.Error()})
			continue
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return report, context.Cause(ctx)
			}
			report.Files = append(report.Files, runFile(ctx, name, o))
		}
	}
	return report, ctx.Err()
}

// expand lists what is to be played of a path: itself, or all of a folder but
// its descriptions.
func expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var names []string
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Type().IsRegular() && !strings.EqualFold(entry.Name(), "README.md") {
			names = append(names, name)
		}
		return nil
	})
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%s: no files in it", path)
	}
	slices.Sort(names)
	return names, err
}

// runFile plays one file.
func runFile(ctx context.Context, name string, o Options) *File {
	f := &File{Name: name}
	limit := fmt.Errorf("not done within %v", o.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, limit)
	defer cancel()
	if err := playFile(ctx, f, o); err != nil {
		f.Error = err.Error()
	} else if f.Checks == 0 && len(f.Skipped) == 0 {
		f.Error = "the file checks nothing"
	} else if f.Checks > 0 && f.Bounds == f.Checks {
		f.Error = fmt.Sprintf("all %d checks are upper bounds, which an empty index passes too: the file checks nothing exactly", f.Checks)
	}
	return f
}

func playFile(ctx context.Context, f *File, o Options) error {
	if filepath.Base(f.Name) == "transport.md" {
		f.Kind = kindTransport
		return playScriptNames(ctx, f, o)
	}
	if !strings.HasSuffix(f.Name, ".jsonl") && !strings.HasSuffix(f.Name, ".jsonl.zst") {
		return errors.New("unknown kind of file; want .jsonl, .jsonl.zst, or transport.md")
	}
	lines, err := readLines(f.Name)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return errors.New("the file is empty")
	}
	if f.Kind, err = formatOf(lines[0]); err != nil {
		return err
	}
	for _, l := range lines[1:] {
		if kind, err := formatOf(l); err != nil {
			return err
		} else if kind != f.Kind {
			return fmt.Errorf("line %d: a line of kind %s in a file of kind %s", l.number, kind, f.Kind)
		}
	}
	switch f.Kind {
	case kindWire:
		return playWire(ctx, f, lines, o)
	case kindReplay:
		return playReplay(ctx, f, lines, o)
	case kindIndex:
		return playTraces(ctx, f, lines, o)
	case kindTransport:
		return playScripts(ctx, f, lines, o)
	case kindCapture:
		return playCapture(ctx, f, lines, o)
	default:
		return playHashes(f, lines)
	}
}
