package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/server"
)

// Validate checks what no single value shows: that sources are told apart,
// and that a listener others can reach is protected. Call it once all of
// file, environment and flags are applied. All problems are returned, joined.
func (c *Config) Validate() error {
	var problems []error
	add := func(key, value, what, want string) {
		problems = append(problems, &Problem{Key: key, Value: value, What: what, Want: want})
	}
	if len(c.Sources) == 0 && !c.Registration && c.WorkersFile == "" {
		add("sources", "", "is empty: there is nothing to follow", "at least one source with id, model and endpoint, in the file that --config or CAIRN_CONFIG names, or registration or workers_file")
	}
	ids := map[string]int{}
	for i, s := range c.Sources {
		if before, twice := ids[s.ID]; twice {
			add(fmt.Sprintf("sources[%d].id", i), strconv.Quote(s.ID), fmt.Sprintf("is the id of sources[%d] too", before), "an id of its own for each source")
		}
		ids[s.ID] = i
	}
	problems = append(problems, sharedEndpoints(c.Sources)...)
	if (c.TLSCert == "") != (c.TLSKey == "") {
		missing, given := "tls_cert", "tls_key"
		if c.TLSKey == "" {
			missing, given = given, missing
		}
		add(missing, "", "is missing", "both "+given+" and "+missing+", or neither")
	}
	if _, err := server.CheckBind(c.Listen, c.TokenFile != "", c.TLSCert != "", c.Insecure); err != nil {
		add("listen", strconv.Quote(c.Listen), "can be reached from other machines",
			"token_file and tls_cert with it, a loopback address, or insecure: true")
	}
	if c.Admin == None {
		return errors.Join(problems...)
	}
	// Profiles show memory, prompts included, and the admin listener speaks no TLS.
	if _, err := server.CheckBind(c.Admin, false, false, c.Insecure); err != nil {
		add("admin", strconv.Quote(c.Admin), "can be reached from other machines, and profiles show memory",
			"a loopback address, none, or insecure: true")
	}
	if c.Admin == c.Listen && !strings.HasSuffix(c.Admin, ":0") {
		add("admin", strconv.Quote(c.Admin), "is the address of listen too", "another port, or none")
	}
	return errors.Join(problems...)
}

// sharedEndpoints finds publishers that two sources would both follow: each
// would then claim the other's blocks. One that publishes several topics may be
// followed once for each. The engine looks at a source alone, so that this is
// the configuration's to find; an endpoint it would refuse is its to report.
func sharedEndpoints(sources []engine.Source) []error {
	type use struct {
		source     int
		key, topic string
	}
	var problems []error
	seen := map[string][]use{} // by the endpoint of a rank
	for i, s := range sources {
		told := map[string]bool{} // keys of this source and of the other one
		check := func(key, base string) {
			for rank := range max(s.Ranks, 1) {
				ep, err := engine.RankEndpoint(base, rank)
				if err != nil {
					return
				}
				for _, u := range seen[ep] {
					if u.source == i || u.topic != s.Topic && u.topic != "" && s.Topic != "" || told[key+u.key] {
						continue
					}
					told[key+u.key] = true
					problems = append(problems, &Problem{
						Key: key, Value: strconv.Quote(base),
						What: fmt.Sprintf("has rank %d on %s, which %s follows too", rank, ep, u.key),
						Want: "a publisher of its own for each rank of each source (rank r listens on port + r)",
					})
				}
				seen[ep] = append(seen[ep], use{i, key, s.Topic})
			}
		}
		if s.Endpoint != "" {
			check(fmt.Sprintf("sources[%d].endpoint", i), s.Endpoint)
		}
		for j, ep := range s.Shards {
			check(fmt.Sprintf("sources[%d].shards[%d]", i, j), ep)
		}
	}
	return problems
}
