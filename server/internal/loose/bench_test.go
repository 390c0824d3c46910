package loose

import (
	"fmt"
	"strings"
	"testing"
)

// config is a text of 2 kB as W&B keeps it: few long texts, some lists, many short members.
func config() []byte {
	var b strings.Builder
	b.WriteString(`{"_wandb":{"value":{"cli_version":"0.19.0","t":{"1":[1,5,53,55],"2":[1,5,53,55]},"m":[]}}`)
	for i := 0; b.Len() < 2000; i++ {
		fmt.Fprintf(&b, `,"option_%d":{"value":{"rate":%g,"name":"5F3sa2TJAWMqDhXG6jhV4N8ko9SxwGy8TpaNS1repo5EYjQX","on":true,"list":[1,2,3]}}`, i, 0.001*float64(i))
	}
	b.WriteString(`,"role":{"value":"validator"}}`)
	return []byte(b.String())
}

func BenchmarkCheck(b *testing.B) {
	text := config()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if Check(text) != nil {
			b.Fail()
		}
	}
}

func BenchmarkGet(b *testing.B) {
	text := config()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := Get(text, "role", "value"); !ok {
			b.Fail()
		}
	}
}

func BenchmarkMembers(b *testing.B) {
	text := []byte(`{"train/loss":0.123456789,"train/accuracy":0.5,"lr":0.0003,"_step":12345,"_runtime":1234.5678,"_timestamp":1795226412.9381752}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		sum := 0.0
		for m := range Members(text) {
			f, _ := Float(m.Value)
			sum += f
		}
		if sum == 0 {
			b.Fail()
		}
	}
}
