package pair

// Geometry is the shape of a model's keys and values, from which bytes follow.
type Geometry struct {
	Layers, Heads, HeadSize int
	ValueBytes              int // of one number
	BlockTokens             int
}

// Default is the geometry of the acceptance scenarios: 28 layers, 8 heads for
// keys and values, 128 numbers of two bytes in a head, blocks of 64 tokens.
var Default = Geometry{Layers: 28, Heads: 8, HeadSize: 128, ValueBytes: 2, BlockTokens: 64}

// SpansPerBlock is one range of keys and one of values.
const SpansPerBlock = 2

// TokenBytes is the size of a token, all TP shards together.
func (g Geometry) TokenBytes() int { return g.Layers * g.Heads * g.HeadSize * 2 * g.ValueBytes }

// BlockBytes is the size of a block on one of so many TP shards.
func (g Geometry) BlockBytes(shards int) int { return g.TokenBytes() * g.BlockTokens / shards }

// Restorable is how many leading blocks of a prompt an engine may restore: it
// must compute at least the last token itself.
func (g Geometry) Restorable(tokens int) int { return max(tokens-1, 0) / g.BlockTokens }
