package job

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	adjectives = "amber bold brisk calm clear cosmic crisp deft eager early fair fleet fresh gentle golden grand happy keen kind lively lucid mellow merry nimble noble quick quiet rapid rare silver smooth solar steady still sunny swift tidy true vivid warm wise young"
	nouns      = "arc beam breeze bridge brook canyon cedar cliff cloud comet coral crane creek dawn delta dune ember falcon fern field fjord forest garden glade harbor hawk heron island lake lark maple meadow moon oak ocean orbit pine prairie quartz rain reef ridge river sky spark"
)

// Name is a readable run name, made of the job's id: all processes of the job, in
// Go and in Python, find the same.
func Name(id string) string {
	digest := sha256.Sum256([]byte(id + "\x000"))
	first, second := strings.Fields(adjectives), strings.Fields(nouns)
	return first[int(digest[0])%len(first)] + "-" + second[int(digest[1])%len(second)] + "-" + hex.EncodeToString(digest[2:5])
}
