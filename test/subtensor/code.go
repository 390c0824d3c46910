package subtensor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/tetratelabs/wazero"
)

// codeKey is where a chain keeps its runtime.
const codeKey = ":code"

// compressedMark is in front of a runtime that is compressed with zstd.
const compressedMark = "\x52\xbc\x53\x76\x46\xdb\x8e\x05"

// Path is where the tests look for the dev genesis: $KYMOGRAM_TESTDATA/raonet.json,
// by default in ~/.cache/kymogram-testdata. The file is scripts/specs/raonet.json of
// the public repository opentensor/subtensor.
func Path() string {
	folder := os.Getenv("KYMOGRAM_TESTDATA")
	if folder == "" {
		if cache, err := os.UserCacheDir(); err == nil {
			folder = filepath.Join(cache, "kymogram-testdata")
		}
	}
	return filepath.Join(folder, "raonet.json")
}

// sum is the sha256 of the one raonet.json that the tests are written for: its runtime is
// node-subtensor's spec 218.
const sum = "bb2c7e34390f8fb5032750cc7d80d23f91a47f56fdebf4c35a24c7938b96c57c"

// Code is a compiled runtime and the genesis it came with. Nodes share it.
type Code struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	genesis  map[string][]byte
}

// Load reads a dev genesis and compiles its runtime; the machine code is kept
// beside the file, so that only the first load takes seconds.
func Load(ctx context.Context, path string) (*Code, error) {
	genesis, err := readGenesis(path)
	if err != nil {
		return nil, err
	}
	module, err := expand(genesis[codeKey])
	if err == nil {
		module, err = ownMemory(module)
	}
	if err != nil {
		return nil, fmt.Errorf("the runtime in %s: %w", path, err)
	}
	config := wazero.NewRuntimeConfig()
	if cache, err := wazero.NewCompilationCacheWithDir(filepath.Join(filepath.Dir(path), "wazero")); err == nil {
		config = config.WithCompilationCache(cache) // without one it compiles each time
	}
	c := &Code{runtime: wazero.NewRuntimeWithConfig(ctx, config), genesis: genesis}
	if err := exportHost(ctx, c.runtime); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	if c.compiled, err = c.runtime.CompileModule(ctx, module); err != nil {
		return nil, errors.Join(fmt.Errorf("compile the runtime: %w", err), c.Close(ctx))
	}
	return c, nil
}

// Close frees the machine code.
func (c *Code) Close(ctx context.Context) error { return c.runtime.Close(ctx) }

func readGenesis(path string) (map[string][]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the dev genesis: %w", err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(raw)); got != sum {
		return nil, fmt.Errorf("the dev genesis %s is another file: its sha256 is %s, not %s; docs/chain.md says where it comes from", path, got, sum)
	}
	var spec struct {
		Genesis struct {
			Raw struct {
				Top map[string]string `json:"top"`
			} `json:"raw"`
		} `json:"genesis"`
	}
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, fmt.Errorf("read the dev genesis %s: %w", path, err)
	}
	out := map[string][]byte{}
	for key, value := range spec.Genesis.Raw.Top {
		k, err1 := hex.DecodeString(strings.TrimPrefix(key, "0x"))
		v, err2 := hex.DecodeString(strings.TrimPrefix(value, "0x"))
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("read the dev genesis %s: %w", path, err)
		}
		out[string(k)] = v
	}
	if out[codeKey] == nil {
		return nil, fmt.Errorf("the dev genesis %s holds no runtime", path)
	}
	return out, nil
}

func expand(code []byte) ([]byte, error) {
	packed, ok := strings.CutPrefix(string(code), compressedMark)
	if !ok {
		return code, nil
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll([]byte(packed), nil)
}

// call runs one entry point in a fresh instance: runtimes keep nothing between
// calls.
func (c *Code) call(ctx context.Context, s *state, entry string, input []byte) ([]byte, error) {
	h := &host{state: s}
	ctx = context.WithValue(ctx, hostKey{}, h)
	instance, err := c.runtime.InstantiateModule(ctx, c.compiled, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		return nil, fmt.Errorf("start the runtime: %w", err)
	}
	defer instance.Close(ctx)
	base := instance.ExportedGlobal("__heap_base")
	fn := instance.ExportedFunction(entry)
	if base == nil || fn == nil {
		return nil, fmt.Errorf("the runtime has no %s", entry)
	}
	h.memory, h.heap = instance.Memory(), uint32(base.Get())
	at := h.write(input)
	result, err := fn.Call(ctx, uint64(at), uint64(len(input)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", entry, err)
	}
	return h.read(result[0]), nil
}
