package chain

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// VersionAsInt is a version as the chain keeps it: 100·major + 10·minor + patch, so
// "1.8.3" is 183. What follows "-" or "+" does not count.
//
// The rule is the compute subnet's and it is ambiguous for parts of 10 and more:
// "1.8.13" and "1.9.3" are both 193. Bittensor itself used other rules in other
// versions; records of different programs do not compare.
func VersionAsInt(version string) (uint32, error) {
	numbers, _, _ := strings.Cut(version, "+")
	numbers, _, _ = strings.Cut(numbers, "-")
	parts := strings.Split(numbers, ".")
	var total uint64
	if len(parts) != 3 {
		return 0, refuseVersion(version)
	}
	for i, weight := range []uint64{100, 10, 1} {
		n, err := strconv.ParseUint(parts[i], 10, 32)
		if err != nil {
			return 0, refuseVersion(version)
		}
		total += weight * n
	}
	if total > math.MaxUint32 {
		return 0, refuseVersion(version)
	}
	return uint32(total), nil
}

func refuseVersion(version string) error {
	return model.Errorf(model.CodeInvalid, "%q is not a version of three numbers", version).
		WithHint("write it as MAJOR.MINOR.PATCH, such as 1.8.3")
}

// mustFit refuses numbers that a field on the chain cannot hold.
func mustFit(name string, value int64, bits int) error {
	if value < 0 || value > 1<<bits-1 {
		return model.Errorf(model.CodeInvalid, "%s is %d: it must be from 0 to %d", name, value, int64(1)<<bits-1).
			WithHint("%s", fmt.Sprintf("the chain keeps %s in %d bits", name, bits))
	}
	return nil
}
