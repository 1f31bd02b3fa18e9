package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/server"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// Validate checks what no single value shows: that sources are told apart,
// and that a listener others can reach is protected. Call it once all of
// file, environment and flags are applied. All problems are returned, joined.
func (c *Config) Validate() error {
	var problems []error
	add := func(key, value, what, want string) {
		problems = append(problems, &Problem{Key: key, Value: value, What: what, Want: want})
	}
	if len(c.Sources) == 0 && len(c.Listeners) == 0 && !c.Registration && c.WorkersFile == "" {
		add("sources", "", "is empty: there is nothing to follow", "at least one source with id, model and endpoint, or a listener, in the file that --config or CAIRN_CONFIG names, or registration or workers_file")
	}
	problems = append(problems, c.names()...)
	problems = append(problems, c.secrets()...)
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

// names finds sources and listeners that bear one name. A listener finds those
// among its own sources itself.
func (c *Config) names() (problems []error) {
	sources, listeners, binds := map[string]string{}, map[string]string{}, map[string]string{}
	unique := func(seen map[string]string, path, key, value, want string) {
		if before, twice := seen[value]; twice && strings.SplitN(before, ".", 2)[0] != strings.SplitN(path, ".", 2)[0] {
			problems = append(problems, &Problem{
				Key: path + "." + key, Value: strconv.Quote(value),
				What: fmt.Sprintf("is the %s of %s too", key, before), Want: want,
			})
		}
		seen[value] = path
	}
	const ofSource = "an id of its own for each source"
	for i, s := range c.Sources {
		unique(sources, fmt.Sprintf("sources[%d]", i), "id", s.ID, ofSource)
	}
	for i, l := range c.Listeners {
		path := fmt.Sprintf("listeners[%d]", i)
		unique(listeners, path, "id", l.ID, "an id of its own for each listener")
		if l.Bind != "" && !strings.HasSuffix(l.Bind, ":0") && !strings.HasSuffix(l.Bind, ":*") {
			unique(binds, path, "bind", l.Bind, "an address of its own for each listener")
		}
		for j, s := range l.Sources {
			unique(sources, fmt.Sprintf("%s.sources[%d]", path, j), "id", s.ID, ofSource)
		}
		if id := l.Source.ID; id != "" {
			if before, twice := sources[id]; twice {
				problems = append(problems, &Problem{Key: path + ".source", Value: strconv.Quote(id), What: "is the id of " + before + " too", Want: ofSource})
			}
			sources[id] = path
		}
	}
	return problems
}

// secrets finds passwords and tokens that are not where the file says.
func (c *Config) secrets() (problems []error) {
	check := func(key, name string, s zmtp.Secret) {
		if err := checkSecret(key, name, s); err != nil {
			problems = append(problems, err)
		}
	}
	for i, s := range c.Sources {
		if s.Plain != nil {
			check(fmt.Sprintf("sources[%d].plain", i), "password", s.Plain.Password)
		}
		if s.Discover != nil {
			check(fmt.Sprintf("sources[%d].discover", i), "token", s.Discover.Token)
		}
	}
	for i, l := range c.Listeners {
		for j, u := range l.Users {
			check(fmt.Sprintf("listeners[%d].users[%d]", i, j), "password", u.Password)
		}
		if l.Plain != nil {
			check(fmt.Sprintf("listeners[%d].plain", i), "password", l.Plain.Password)
		}
	}
	return problems
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
