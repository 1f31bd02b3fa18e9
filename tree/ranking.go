package tree

// ranking knows which holder has most. It is a tree over the holders in which a
// node has the larger figure of its two children; a holder whose figure may have
// changed is noted, and looked at when somebody asks.
//
//	          9
//	    9           4
//	 7     9     4     0
//	7 2   1 9   4 3   0 0
type ranking struct {
	most  []int32 // the root is 1, the children of i are 2i and 2i+1
	noted []uint32
	all   bool // too many were noted
}

// maxNoted is how many holders may be noted before all are looked at.
const maxNoted = 64

func (r *ranking) note(holder uint32) {
	if r.all || len(r.noted) > 0 && r.noted[len(r.noted)-1] == holder {
		return
	}
	if len(r.noted) == maxNoted {
		r.all, r.noted = true, r.noted[:0]
		return
	}
	r.noted = append(r.noted, holder)
}

// refresh looks at those that were noted.
func (r *ranking) refresh(holders int, figure func(holder uint32) int) {
	if size := len(r.most) / 2; size < holders || r.all {
		size = max(size, 8)
		for size < holders {
			size *= 2
		}
		if len(r.most) < 2*size {
			r.most = make([]int32, 2*size)
		}
		for i := range holders {
			r.most[size+i] = int32(figure(uint32(i)))
		}
		for i := size - 1; i > 0; i-- {
			r.most[i] = max(r.most[2*i], r.most[2*i+1])
		}
	} else {
		for _, h := range r.noted {
			r.set(h, figure(h))
		}
	}
	r.all, r.noted = false, r.noted[:0]
}

// set says what a holder has.
func (r *ranking) set(holder uint32, figure int) {
	i := len(r.most)/2 + int(holder)
	r.most[i] = int32(figure)
	for i /= 2; i > 0; i /= 2 {
		m := max(r.most[2*i], r.most[2*i+1])
		if r.most[i] == m {
			return
		}
		r.most[i] = m
	}
}

// first is the holder that has most, and what it has.
func (r *ranking) first() (holder uint32, figure int) {
	i := 1
	for i < len(r.most)/2 {
		if i *= 2; r.most[i] < r.most[i+1] {
			i++
		}
	}
	return uint32(i - len(r.most)/2), int(r.most[i])
}
