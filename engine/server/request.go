package server

import (
	"math"
	"strconv"

	"github.com/cairn-kv/cairn/engine"
)

// maxPosition bounds offsets and lengths: no prompt is longer.
const maxPosition = math.MaxInt32

// request is a parsed /v1/match or /v1/hint.
type request struct {
	query  engine.Query
	target engine.Target

	hasTarget bool
	as        wording  // of a hint
	contents  []uint64 // buffer of query.Contents
}

func (r *request) reset() {
	*r = request{
		query:    engine.Query{Tokens: r.query.Tokens[:0], Keys: r.query.Keys[:0]},
		contents: r.contents[:0],
	}
}

// parse reads a request's body. hint adds the fields that /v1/hint has and
// /v1/match has not.
func (r *request) parse(body []byte, hint bool) *apiError {
	c := &cursor{b: body}
	q := &r.query
	var hasTokens, hasContents bool
	c.object("", func(key string) bool {
		switch key {
		case "model":
			q.Model = c.text(key)
		case "tokens":
			hasTokens = true
			q.Tokens = c.tokens(key, q.Tokens)
		case "adapter":
			q.Adapter = c.text(key)
		case "salt":
			q.Salt = c.text(key)
		case "keys":
			c.list(key, func(i int) { q.Keys = append(q.Keys, c.key("keys["+strconv.Itoa(i)+"]")) })
		case "content_hashes":
			hasContents = true
			c.list(key, func(i int) { r.contents = append(r.contents, c.name("content_hashes["+strconv.Itoa(i)+"]")) })
		case "block_size":
			q.BlockSize = c.integer(key, "bad_block_size", 1, maxPosition)
		case "target":
			if !hint {
				return false
			}
			r.hasTarget = true
			c.object(key, func(key string) bool {
				switch key {
				case "source":
					r.target.Source = c.text("target.source")
				case "rank":
					r.target.Rank = c.integer("target.rank", "bad_rank", 0, math.MaxInt32)
				default:
					return false
				}
				return true
			})
		case "message_id":
			if !hint {
				return false
			}
			r.target.MessageID = c.text(key)
		case "query_only":
			if !hint {
				return false
			}
			r.target.QueryOnly = c.truth(key)
		default:
			return hint && r.as.parse(c, key)
		}
		return true
	})
	c.end()
	switch {
	case c.err != nil:
	case q.Model == "":
		c.fail(400, "missing_field", "model", "is required")
	case hasTokens && hasContents:
		c.fail(400, "both_forms", "content_hashes", "give one of tokens and content_hashes, not both")
	case !hasTokens && !hasContents:
		c.fail(400, "missing_field", "tokens", "one of tokens and content_hashes is required")
	case hasContents && q.BlockSize == 0:
		c.fail(400, "missing_field", "block_size", "is required with content_hashes")
	case hasTokens && q.BlockSize != 0:
		c.fail(400, "bad_block_size", "block_size", "goes with content_hashes only; sources tell their own")
	case hint && !r.hasTarget:
		c.fail(400, "missing_field", "target", "is required: the worker that the request goes to")
	case hint && r.target.Source == "":
		c.fail(400, "missing_field", "target.source", "is required")
	}
	if hasContents {
		q.Contents = r.contents
	}
	return c.err
}

// key reads one extra key: {"id": "...", "offset": 0, "length": 16}, or a
// ready-made "hash" instead of the id.
func (c *cursor) key(field string) engine.Key {
	var k engine.Key
	var named, hashed bool
	c.object(field, func(key string) bool {
		path := join(field, key)
		switch key {
		case "id":
			id := c.text(path)
			if k.Hash, named = engine.MultimodalKey(id); !named {
				c.fail(400, "bad_key", path, "is empty; a key needs an identifier")
			}
		case "hash":
			k.Hash, hashed = c.name(path), true
		case "offset":
			k.Offset = c.integer(path, "bad_key", 0, maxPosition)
		case "length":
			k.Length = c.integer(path, "bad_key", 0, maxPosition)
		default:
			return false
		}
		return true
	})
	if named == hashed {
		c.fail(400, "bad_key", field, "wants one of id and hash")
	}
	return k
}
