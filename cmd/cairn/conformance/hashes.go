package conformance

import (
	"fmt"
	"strconv"

	"github.com/cairn-kv/cairn/tree/content"
)

// hashVector is one line of a peer's content hashes.
type hashVector struct {
	ID        string     `json:"id"`
	Tokens    []uint32   `json:"tokens"`
	BlockSize int        `json:"block_size"`
	Lora      *string    `json:"lora"`
	Salt      *string    `json:"salt"`
	MM        [][]string `json:"mm"` // per block, object hashes
	Eagle     bool       `json:"eagle"`
	Content   []string   `json:"content"`
}

// playHashes compares content hashes with a peer's. The peer salts every
// block, cairn the first one only: so every block is hashed under the seed of
// a first one here.
func playHashes(f *File, lines []line) error {
	for _, l := range lines {
		var v hashVector
		if err := l.decode(&v); err != nil {
			return err
		}
		var adapter, salt string
		if v.Lora != nil {
			adapter = *v.Lora
		}
		if v.Salt != nil {
			salt = *v.Salt
		}
		var keys content.Keys
		for i, block := range v.MM {
			for _, s := range block {
				h, err := strconv.ParseUint(s, 10, 64)
				if err != nil {
					return fmt.Errorf("line %d: mm[%d]: %w", l.number, i, err)
				}
				keys.Hashes = append(keys.Hashes, h)
			}
			keys.Ends = append(keys.Ends, len(keys.Hashes))
		}
		lookahead := 0
		if v.Eagle {
			lookahead = 1
		}
		seed := content.MakeSeeds(adapter, salt).First
		got := []string{}
		for _, h := range content.Append(nil, v.Tokens, v.BlockSize, lookahead, seed, seed, &keys) {
			got = append(got, strconv.FormatUint(h, 10))
		}
		f.Played++
		compare(f, l.number, v.ID, "content hashes", fmt.Sprint(v.Content), fmt.Sprint(got))
	}
	return nil
}
