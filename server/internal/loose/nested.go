package loose

import (
	"encoding/binary"
	"math/bits"
)

// pastNested skips an array or object by counting brackets outside of strings, 64
// bytes at a time: a jump from mark to mark would be mispredicted at each of them.
// It looks first for {"value":x}, of which configurations of W&B are made.
func pastNested(b []byte, i int) int {
	if end := pastSingle(b, i); end > 0 {
		return end
	}
	var quoted, escaped uint64 // carried into the next block: all bits, or the first
	depth := 0
	for ; i+64 <= len(b); i += 64 {
		block := (*[64]byte)(b[i:])
		quotes, brackets, slashes := marks(block)
		if slashes|escaped != 0 {
			quotes, escaped = unescape(quotes, slashes, escaped)
		}
		inside := prefixes(quotes) ^ quoted
		quoted = -(inside >> 63)
		for brackets &^= inside; brackets != 0; brackets &= brackets - 1 {
			at := bits.TrailingZeros64(brackets)
			if depth += step(block[at]); depth == 0 {
				return i + at + 1
			}
		}
	}
	return pastRest(b, i, depth, quoted != 0, escaped != 0)
}

// pastSingle skips an object of one member, without white space, that is not nested; 0 for another value.
func pastSingle(b []byte, i int) int {
	if i+1 >= len(b) || b[i] != '{' || b[i+1] != '"' {
		return 0
	}
	if i = pastText(b, i+1); i+1 >= len(b) || b[i] != ':' || b[i+1] == '{' || b[i+1] == '[' {
		return 0
	}
	if i = pastValue(b, i+1); i >= len(b) || b[i] != '}' {
		return 0
	}
	return i + 1
}

// step is what a mark adds to the depth. Infinity has a y, which marks takes for a bracket.
func step(c byte) int {
	switch c {
	case '{', '[':
		return 1
	case '}', ']':
		return -1
	}
	return 0
}

// pastRest is pastNested byte by byte, from within the value.
func pastRest(b []byte, i, depth int, quoted, escaped bool) int {
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted && step(c) != 0:
			if depth += step(c); depth == 0 {
				return i + 1
			}
		}
	}
	return len(b)
}

// marks has a bit for each quote, each bracket and each backslash of a block. With bit 5 set and bits 1 and 2 cleared, all four brackets are
// one byte. So are y and _, but only a word can have one outside of strings.
func marks(block *[64]byte) (quotes, brackets, slashes uint64) {
	for k := 0; k < 64; k += 8 {
		x := binary.LittleEndian.Uint64(block[k : k+8])
		quotes = quotes>>8 | packed(zeros(x^'"'*ones))
		brackets = brackets>>8 | packed(zeros((x|' '*ones)&^(6*ones)^('y'*ones)))
		slashes = slashes>>8 | packed(zeros(x^'\\'*ones))
	}
	return quotes, brackets, slashes
}

// zeros has the high bit of each byte of a word that is zero.
func zeros(x uint64) uint64 {
	const low = ^uint64(highs)
	return ^(x&low + low | x) & highs
}

// packed moves the high bits of the bytes into the uppermost byte.
func packed(x uint64) uint64 { return x * 0x0002040810204081 & (0xff << 56) }

// unescape takes away the quotes that a backslash stands before. It says whether
// the first byte of the next block is escaped. Lines that are texts of a text have a
// backslash in each block, so this counts all runs of backslashes at once: the sum of a
// run and the bit where it begins has its carry behind the run.
func unescape(quotes, slashes, escaped uint64) (left, next uint64) {
	const even = 0x5555555555555555
	slashes &^= escaped // it is escaped itself
	behind := slashes<<1 | escaped
	sum, next := bits.Add64(slashes&^even&^behind, slashes, 0)
	return quotes &^ ((even ^ sum<<1) & behind), next
}

// prefixes has a bit set where the number of bits up to it is odd.
func prefixes(x uint64) uint64 {
	x ^= x << 1
	x ^= x << 2
	x ^= x << 4
	x ^= x << 8
	x ^= x << 16
	return x ^ x<<32
}
