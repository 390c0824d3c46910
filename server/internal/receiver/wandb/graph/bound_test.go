package graph_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
)

// run answers a document over a root.
func run(t *testing.T, query string, root graph.Object) ([]byte, []graph.Problem) {
	t.Helper()
	op, err := graph.Parse(&graph.Request{Query: query})
	if err != nil {
		t.Fatal(err)
	}
	data, problems, _ := op.Run(t.Context(), root)
	return data, problems
}

// TestLongTextsEnd: a document that names a long text many times gets a part and an error.
func TestLongTextsEnd(t *testing.T) {
	root := graph.Object{"text": strings.Repeat("x", 1<<20)}
	var b strings.Builder
	for i := range 3_000 {
		fmt.Fprintf(&b, "a%d:text ", i)
	}
	data, problems := run(t, "{"+b.String()+"}", root)
	if len(data) > 130<<20 || len(problems) != 1 {
		t.Errorf("%d bytes, %v", len(data), problems)
	}
}

// TestComputedFieldsEnd: a document of few bytes may ask for ten of each of ten, and so on.
func TestComputedFieldsEnd(t *testing.T) {
	calls := 0
	root := graph.Object{}
	root["next"] = graph.Resolver(func(context.Context, graph.Args) (graph.Field, error) {
		calls++
		return graph.Object{"next": root["next"], "id": "1"}, nil
	})
	var b strings.Builder
	b.WriteString("{...F7} fragment F0 on X{id}")
	for i := 1; i <= 7; i++ {
		fmt.Fprintf(&b, " fragment F%d on X{", i)
		for k := range 10 {
			fmt.Fprintf(&b, "a%d:next{...F%d} ", k, i-1)
		}
		b.WriteString("}")
	}
	data, problems := run(t, b.String(), root)
	if calls > 50_000 || len(problems) != 1 {
		t.Errorf("%d calls, %v", calls, problems)
	}
	t.Logf("%d calls, %d bytes", calls, len(data))
}
