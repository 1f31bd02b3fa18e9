package topic

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	long := strings.Repeat("x", MaxName+1)
	for _, c := range []struct {
		name, template, topic string
		want                  Mismatch
		source, model         string
		rank                  int
	}{
		{"llm-d", "kv@{source}@{model}", "kv@10.0.0.7@m", Matched, "10.0.0.7", "m", -1},
		{"with a port", "kv@{source}@{model}", "kv@10.0.0.7:8000@meta/llama", Matched, "10.0.0.7:8000", "meta/llama", -1},
		{"IPv6", "kv@{source}@{model}", "kv@[fd00::1]:8000@m", Matched, "[fd00::1]:8000", "m", -1},
		{"storage", "kv@{source}@{model}", "kv@SHARED_STORAGE@m", Matched, "SHARED_STORAGE", "m", -1},
		{"model with a separator", "kv@{source}@{model}", "kv@p@m@main@x", Matched, "p", "m@main@x", -1},
		{"no model", "kv@{source}@{model}", "kv@p", OtherText, "", "", -1},
		{"empty source", "kv@{source}@{model}", "kv@@m", EmptyField, "", "", -1},
		{"empty model", "kv@{source}@{model}", "kv@p@", EmptyField, "", "", -1},
		{"other prefix", "kv@{source}@{model}", "load@p@m", OtherText, "", "", -1},
		{"shorter than the prefix", "kv@{source}@{model}", "k", OtherText, "", "", -1},
		{"empty topic", "kv@{source}@{model}", "", OtherText, "", "", -1},
		{"rank", "{source}/{rank}/kv", "w1/7/kv", Matched, "w1", "", 7},
		{"rank with zeros", "{source}/{rank}", "w1/007", Matched, "w1", "", 7},
		{"rank too high", "{source}/{rank}", "w1/65536", BadRank, "", "", -1},
		{"rank far too high", "{source}/{rank}", "w1/99999999999999999999999", BadRank, "", "", -1},
		{"rank negative", "{source}/{rank}", "w1/-1", BadRank, "", "", -1},
		{"something else", "{any}.{any}.{source}", "a.b.c.d", Matched, "c.d", "", -1},
		{"text at the end", "{model}-kv", "a-kv-kv", Matched, "", "a-kv", -1},
		{"other text at the end", "{model}-kv", "a-kv-", OtherText, "", "", -1},
		{"only text", "kv", "kv", Matched, "", "", -1},
		{"only text, more", "kv", "kvx", OtherText, "", "", -1},
		{"everything", "", "whatever", Matched, "", "", -1},
		{"everything, empty", "", "", Matched, "", "", -1},
		{"braces", "{{{source}}}", "{w1}", Matched, "w1", "", -1},
		{"not UTF-8", "kv@{source}", "kv@\xff", BadName, "", "", -1},
		{"control character", "kv@{source}", "kv@a\nb", BadName, "", "", -1},
		{"C1 control character", "kv@{source}", "kv@a\u0085b", BadName, "", "", -1},
		{"umlaut", "kv@{source}", "kv@wörker", Matched, "wörker", "", -1},
		{"long name", "kv@{source}", "kv@" + long, LongName, "", "", -1},
		{"long topic", "{any}", strings.Repeat("x", MaxTopic+1), TooLong, "", "", -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			tmpl, err := Parse(c.template)
			if err != nil {
				t.Fatal(err)
			}
			n, got := tmpl.Match([]byte(c.topic))
			if got != c.want {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			if got == Matched && (string(n.Source) != c.source || string(n.Model) != c.model || n.Rank != c.rank) {
				t.Errorf("got %q %q %d, want %q %q %d", n.Source, n.Model, n.Rank, c.source, c.model, c.rank)
			}
			if got == Matched && !strings.HasPrefix(c.topic, tmpl.Prefix()) {
				t.Errorf("prefix %q is not that of %q", tmpl.Prefix(), c.topic)
			}
		})
	}
}

func TestParse(t *testing.T) {
	tmpl, err := Parse("kv@{source}@{model}")
	if err != nil {
		t.Fatal(err)
	}
	if tmpl.Prefix() != "kv@" || !tmpl.NamesSource() || !tmpl.NamesModel() || tmpl.NamesRank() || tmpl.String() != "kv@{source}@{model}" {
		t.Errorf("%+v", tmpl)
	}
	for _, c := range []struct{ name, template, want string }{
		{"unknown", "kv@{pod}", `topic template "kv@{pod}", offset 3: {pod} is no placeholder; want {source}, {model}, {rank} or {any}`},
		{"empty braces", "{}", `offset 0: {} is no placeholder`},
		{"not closed", "kv@{source", `offset 3: { is not closed`},
		{"closes nothing", "kv}", `offset 2: } closes nothing; want }} for a brace`},
		{"twice", "{source}@{source}", `offset 9: {source} stands twice`},
		{"adjacent", "kv@{source}{model}", `offset 11: nothing tells {model} from the placeholder in front of it; want a text between them`},
		{"too long", strings.Repeat("x", MaxTemplate+1), `1025 bytes are too many; want at most 1024`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(c.template)
			var s *SyntaxError
			if !errors.As(err, &s) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// FuzzMatch compares with a regular expression made of the template.
func FuzzMatch(f *testing.F) {
	for _, s := range [][2]string{
		{"kv@{source}@{model}", "kv@a@b@c"}, {"{rank}-{source}", "3-w"}, {"{model}-kv", "a-kv-kv"},
		{"{{{any}}}@{source}x", "{a}@bxx"}, {"{any}aa{source}aa", "baaaaaa"},
	} {
		f.Add(s[0], []byte(s[1]))
	}
	hole := regexp.MustCompile(`\\\{(source|model|rank|any)\\\}`)
	f.Fuzz(func(t *testing.T, template string, topic []byte) {
		tmpl, err := Parse(template)
		if err != nil || len(topic) > 256 || len(template) > 256 || strings.Contains(template, "{{") || strings.Contains(template, "}}") {
			return
		}
		n, got := tmpl.Match(topic)
		// As few bytes as possible, and the last placeholder takes the rest.
		re, err := regexp.Compile(`(?s)\A` + hole.ReplaceAllString(regexp.QuoteMeta(template), `(?P<$1>[\x00-\xff]+?)`) + `\z`)
		if err != nil {
			return // a template whose bytes are no UTF-8
		}
		wide := []rune{} // a byte each, for the expression reads runes
		for _, b := range topic {
			wide = append(wide, rune(b))
		}
		for _, b := range []byte(template) {
			if b >= 0x80 {
				return
			}
		}
		found := re.FindStringSubmatch(string(wide))
		if got == Matched && template != "" {
			if found == nil {
				t.Fatalf("%q matches %q, which the expression does not", template, topic)
			}
			if len(n.Source) > MaxName || len(n.Model) > MaxName || tmpl.NamesSource() != (n.Source != nil) {
				t.Fatalf("%+v", n)
			}
		}
	})
}

func TestMatchDoesNotAllocate(t *testing.T) {
	tmpl, err := Parse("kv@{source}@{model}")
	if err != nil {
		t.Fatal(err)
	}
	topic := []byte("kv@10.0.0.7:8000@meta-llama/Llama-3.1-8B")
	if n := testing.AllocsPerRun(100, func() {
		if _, m := tmpl.Match(topic); m != Matched {
			t.Fatal(m)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
