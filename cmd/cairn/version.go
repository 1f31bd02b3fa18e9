package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/cairn-kv/cairn/tree/content"
	"github.com/spf13/cobra"
)

// build is what this binary is. Two that name another hash scheme cannot
// compare content hashes.
type build struct {
	Version    string `json:"version"`
	Revision   string `json:"revision,omitempty"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	SeedScheme string `json:"seed_scheme"`
}

func thisBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, SeedScheme: content.Scheme}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}

func newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print what this binary is",
		Long: `Print the version, the Go release it was built with, and the scheme of its
content hashes: two builds with another scheme match nothing of each other.`,
		Example: "  cairn version\n  cairn version --json",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			b := thisBuild()
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(b)
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "cairn %s %s %s, content hashes %s\n", b.Version, b.Go, b.Platform, b.SeedScheme)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
