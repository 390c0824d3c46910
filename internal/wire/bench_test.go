package wire

import (
	"fmt"
	"testing"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
)

// forms runs a benchmark with 1,000 attributes in both forms.
func forms(b *testing.B, run func(b *testing.B, protocol uint32, list []model.Update)) {
	list := make([]model.Update, 1_000)
	for i := range list {
		list[i] = model.Update{Op: model.OpSetAttribute, Seq: uint64(i + 1), TimeNs: 1_700_000_000_000_000_000 + int64(i), Path: fmt.Sprint("config/optimizer/group_", i), Value: model.FloatValue(1 / float64(i+3))}
	}
	for name, protocol := range map[string]uint32{"json": JSON, "typed": Typed} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			run(b, protocol, list)
		})
	}
}

func encoded(b *testing.B, protocol uint32, list []model.Update) []byte {
	m := &kymogramv1.Batch{First: 1, Last: uint64(len(list))}
	if err := PutUpdates(m, list, protocol); err != nil {
		b.Fatal(err)
	}
	data, err := m.MarshalVT()
	if err != nil {
		b.Fatal(err)
	}
	return data
}

func BenchmarkWriteUpdates(b *testing.B) {
	forms(b, func(b *testing.B, protocol uint32, list []model.Update) {
		for b.Loop() {
			encoded(b, protocol, list)
		}
	})
}

func BenchmarkReadUpdates(b *testing.B) {
	forms(b, func(b *testing.B, protocol uint32, list []model.Update) {
		data := encoded(b, protocol, list)
		for b.Loop() {
			var m kymogramv1.Batch
			if err := m.UnmarshalVT(data); err != nil {
				b.Fatal(err)
			}
			if _, _, err := ReadUpdates(&m); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(data)), "bytes")
	})
}

func BenchmarkReadOpen(b *testing.B) {
	forms(b, func(b *testing.B, protocol uint32, list []model.Update) {
		r := model.OpenRequest{Workspace: "w", Project: "p", RunName: "r", Initial: list}
		m, err := Open(&r, protocol)
		if err != nil {
			b.Fatal(err)
		}
		data, err := m.MarshalVT()
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			var m kymogramv1.Open
			if err := m.UnmarshalVT(data); err != nil {
				b.Fatal(err)
			}
			if _, err := ReadOpen(&m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
