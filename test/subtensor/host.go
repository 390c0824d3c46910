package subtensor

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/sha3"

	"github.com/kymogram/kymogram/internal/wallet"
)

// hostKey finds the host of a call in its context.
type hostKey struct{}

// host is what the runtime sees outside itself during one call.
type host struct {
	memory api.Memory
	heap   uint32 // the end of what was handed out: nothing is ever freed
	state  *state
}

const page = 64 << 10

// alloc hands memory out, aligned to 8.
func (h *host) alloc(size uint32) uint32 {
	at := (h.heap + 7) &^ 7
	h.heap = at + size
	if have := h.memory.Size(); h.heap > have {
		if _, ok := h.memory.Grow((h.heap - have + page - 1) / page); !ok {
			panic("the runtime wants more memory than there is")
		}
	}
	return at
}

func (h *host) write(data []byte) uint32 {
	at := h.alloc(uint32(len(data)))
	h.memory.Write(at, data)
	return at
}

// span is a pointer and a length in one number, as the runtime passes slices.
func (h *host) span(data []byte) uint64 {
	return uint64(h.write(data)) | uint64(len(data))<<32
}

func (h *host) read(span uint64) []byte { return h.bytes(uint32(span), uint32(span>>32)) }

func (h *host) bytes(at, size uint32) []byte {
	view, ok := h.memory.Read(at, size)
	if !ok {
		panic(fmt.Sprintf("the runtime points outside its memory: %d bytes at %d", size, at))
	}
	return slices.Clone(view)
}

func (h *host) key(span uint64) string { return string(h.read(span)) }

// optional is a SCALE Option<Vec<u8>>.
func (h *host) optional(value []byte) uint64 {
	if value == nil {
		return h.span([]byte{0})
	}
	return h.span(append(appendCompact([]byte{1}, len(value)), value...))
}

// function is a host function: arguments in, at most one result out.
type function struct {
	params  []api.ValueType
	results []api.ValueType
	run     func(h *host, stack []uint64) uint64
}

// The signatures of host functions: i is a pointer or a number, l a span.
func signature(params, results string, run func(h *host, a []uint64) uint64) function {
	types := func(text string) (out []api.ValueType) {
		for _, c := range text {
			if c == 'i' {
				out = append(out, api.ValueTypeI32)
			} else {
				out = append(out, api.ValueTypeI64)
			}
		}
		return out
	}
	return function{types(params), types(results), run}
}

// exportHost gives the runtime the functions that it imports.
func exportHost(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder("env")
	for name, f := range functions() {
		run, results := f.run, len(f.results)
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, _ api.Module, stack []uint64) {
			out := run(ctx.Value(hostKey{}).(*host), stack)
			if results > 0 {
				stack[0] = out
			}
		}), f.params, f.results).Export(name)
	}
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("offer the host functions: %w", err)
	}
	return nil
}

func functions() map[string]function {
	out := map[string]function{}
	for _, group := range []map[string]function{storageFunctions(), hashFunctions(), cryptoFunctions(), otherFunctions()} {
		for name, f := range group {
			out[name] = f
		}
	}
	return out
}

func storageFunctions() map[string]function {
	return map[string]function{
		"ext_storage_set_version_1": signature("ll", "", func(h *host, a []uint64) uint64 {
			h.state.set(h.key(a[0]), h.read(a[1]))
			return 0
		}),
		"ext_storage_get_version_1": signature("l", "l", func(h *host, a []uint64) uint64 {
			return h.optional(h.state.get(h.key(a[0])))
		}),
		"ext_storage_read_version_1": signature("lli", "l", readStorage),
		"ext_storage_clear_version_1": signature("l", "", func(h *host, a []uint64) uint64 {
			h.state.clear(h.key(a[0]))
			return 0
		}),
		"ext_storage_exists_version_1": signature("l", "i", func(h *host, a []uint64) uint64 {
			return truth(h.state.get(h.key(a[0])) != nil)
		}),
		"ext_storage_next_key_version_1": signature("l", "l", func(h *host, a []uint64) uint64 {
			if next := h.state.nextKey(h.key(a[0])); next != "" {
				return h.optional([]byte(next))
			}
			return h.optional(nil)
		}),
		"ext_storage_append_version_1": signature("ll", "", func(h *host, a []uint64) uint64 {
			key := h.key(a[0])
			h.state.set(key, appendItem(h.state.get(key), h.read(a[1])))
			return 0
		}),
		"ext_storage_clear_prefix_version_2": signature("ll", "l", func(h *host, a []uint64) uint64 {
			n := h.state.clearPrefix(h.key(a[0]))
			out := []byte{0} // no cursor: all of it is gone
			for range 3 {    // from the back end, unique, loops
				out = binary.LittleEndian.AppendUint32(out, n)
			}
			return h.span(out)
		}),
		"ext_storage_start_transaction_version_1":    signature("", "", func(h *host, _ []uint64) uint64 { h.state.begin(); return 0 }),
		"ext_storage_commit_transaction_version_1":   signature("", "", func(h *host, _ []uint64) uint64 { h.state.commit(); return 0 }),
		"ext_storage_rollback_transaction_version_1": signature("", "", func(h *host, _ []uint64) uint64 { h.state.rollback(); return 0 }),
		"ext_storage_root_version_2": signature("i", "l", func(h *host, _ []uint64) uint64 {
			root := h.state.digest()
			return h.span(root[:])
		}),
		"ext_trie_blake2_256_ordered_root_version_2": signature("li", "i", func(h *host, a []uint64) uint64 {
			root := blake2b.Sum256(h.read(a[0]))
			return uint64(h.write(root[:]))
		}),
	}
}

// readStorage copies a value from an offset on and tells how much there was.
func readStorage(h *host, a []uint64) uint64 {
	value := h.state.get(h.key(a[0]))
	if value == nil {
		return h.span([]byte{0})
	}
	rest := value[min(int(uint32(a[2])), len(value)):]
	h.memory.Write(uint32(a[1]), rest[:min(len(rest), int(a[1]>>32))])
	return h.span(binary.LittleEndian.AppendUint32([]byte{1}, uint32(len(rest))))
}

// appendItem adds an encoded item to an encoded vector; what is no vector is
// replaced, as nodes do.
func appendItem(list, item []byte) []byte {
	n, size := readCompact(list)
	if size == 0 {
		return append(appendCompact(nil, 1), item...)
	}
	return slices.Concat(appendCompact(nil, n+1), list[size:], item)
}

func hashFunctions() map[string]function {
	hash := func(sum func([]byte) []byte) function {
		return signature("l", "i", func(h *host, a []uint64) uint64 { return uint64(h.write(sum(h.read(a[0])))) })
	}
	return map[string]function{
		"ext_hashing_twox_64_version_1":    hash(func(b []byte) []byte { return twox(1, b) }),
		"ext_hashing_twox_128_version_1":   hash(func(b []byte) []byte { return twox(2, b) }),
		"ext_hashing_blake2_128_version_1": hash(blake128),
		"ext_hashing_blake2_256_version_1": hash(func(b []byte) []byte { sum := blake2b.Sum256(b); return sum[:] }),
		"ext_hashing_sha2_256_version_1":   hash(func(b []byte) []byte { sum := sha256.Sum256(b); return sum[:] }),
		"ext_hashing_keccak_256_version_1": hash(func(b []byte) []byte {
			d := sha3.NewLegacyKeccak256()
			_, _ = d.Write(b)
			return d.Sum(nil)
		}),
	}
}

func twox(words uint64, data []byte) (out []byte) {
	for seed := range words {
		d := xxhash.NewWithSeed(seed)
		_, _ = d.Write(data)
		out = binary.LittleEndian.AppendUint64(out, d.Sum64())
	}
	return out
}

func blake128(data []byte) []byte {
	d, err := blake2b.New(16, nil)
	if err != nil {
		panic(err) // 16 is a valid size
	}
	_, _ = d.Write(data)
	return d.Sum(nil)
}

func cryptoFunctions() map[string]function {
	// Nobody here signs with secp256k1 (Ethereum's keys): recovery always fails.
	noRecovery := signature("ii", "l", func(h *host, _ []uint64) uint64 { return h.span([]byte{1, 2}) })
	noKeys := signature("il", "i", func(*host, []uint64) uint64 { panic("the runtime has no key store here") })
	return map[string]function{
		"ext_crypto_ed25519_verify_version_1": signature("ili", "i", func(h *host, a []uint64) uint64 {
			return truth(ed25519.Verify(h.bytes(uint32(a[2]), ed25519.PublicKeySize), h.read(a[1]), h.bytes(uint32(a[0]), ed25519.SignatureSize)))
		}),
		"ext_crypto_sr25519_verify_version_2": signature("ili", "i", func(h *host, a []uint64) uint64 {
			account, sig := wallet.Account(h.bytes(uint32(a[2]), 32)), [64]byte(h.bytes(uint32(a[0]), 64))
			return truth(wallet.Verify(account, h.read(a[1]), sig))
		}),
		"ext_crypto_secp256k1_ecdsa_recover_version_2":            noRecovery,
		"ext_crypto_secp256k1_ecdsa_recover_compressed_version_2": noRecovery,
		"ext_crypto_sr25519_generate_version_1":                   noKeys,
		"ext_crypto_ed25519_generate_version_1":                   noKeys,
	}
}

func otherFunctions() map[string]function {
	quiet := func(*host, []uint64) uint64 { return 0 }
	return map[string]function{
		"ext_allocator_malloc_version_1":     signature("i", "i", func(h *host, a []uint64) uint64 { return uint64(h.alloc(uint32(a[0]))) }),
		"ext_allocator_free_version_1":       signature("i", "", quiet),
		"ext_misc_runtime_version_version_1": signature("l", "l", func(h *host, _ []uint64) uint64 { return h.optional(nil) }),
		"ext_misc_print_utf8_version_1":      signature("l", "", quiet),
		"ext_misc_print_hex_version_1":       signature("l", "", quiet),
		"ext_logging_max_level_version_1":    signature("", "i", quiet),
		"ext_logging_log_version_1":          signature("ill", "", quiet),
	}
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// appendCompact and readCompact are SCALE's compact numbers below 2^30. They are
// written here a second time: the client under test must not be its own judge.
func appendCompact(dst []byte, n int) []byte {
	switch {
	case n < 1<<6:
		return append(dst, byte(n<<2))
	case n < 1<<14:
		return append(dst, byte(n<<2|1), byte(n>>6))
	case n < 1<<30:
		return append(dst, byte(n<<2|2), byte(n>>6), byte(n>>14), byte(n>>22))
	}
	panic("a vector of more than 2^30 items")
}

func readCompact(b []byte) (n, size int) {
	if len(b) == 0 {
		return 0, 0
	}
	size = []int{1, 2, 4, 0}[b[0]&3]
	if size == 0 || len(b) < size {
		return 0, 0
	}
	for i := size - 1; i >= 0; i-- {
		n = n<<8 | int(b[i])
	}
	return n >> 2, size
}
