package allocate

import "math/bits"

const word = 64

// bitset is a set of small numbers.
type bitset []uint64

func newBits(n int) bitset { return make(bitset, (n+word-1)/word) }

func (b bitset) has(i int) bool { return b[i/word]&(1<<(i%word)) != 0 }

// add returns false if i is in the set already.
func (b bitset) add(i int) bool {
	if b.has(i) {
		return false
	}
	b[i/word] |= 1 << (i % word)
	return true
}

func (b bitset) remove(i int) { b[i/word] &^= 1 << (i % word) }

// next returns the lowest number in the set that is not below from, or -1.
func (b bitset) next(from int) int {
	for w := from / word; w < len(b); w++ {
		rest := b[w]
		if w == from/word {
			rest &= ^uint64(0) << (from % word)
		}
		if rest != 0 {
			return w*word + bits.TrailingZeros64(rest)
		}
	}
	return -1
}
