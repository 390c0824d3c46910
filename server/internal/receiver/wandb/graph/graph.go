// Package graph answers GraphQL: it reads a document with a parser of the field, bounds it
// and runs it over resolvers that the caller gives. It has no schema. Clients of one API ask
// in many texts and for fields of other versions, so a field that an object does not have is
// null, and what is asked for says what is computed.
//
// In: a document, its variables and a root [Object]. Out: the JSON of the answer, with the
// errors of single fields beside the data of others, as the specification says
// (spec.graphql.org, October 2021, sections 6 and 7). Left out: subscriptions, directives
// other than skip and include, introspection (the caller's fields may have it).
package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/kymogram/kymogram/internal/model"
)

// Limits of a request. The largest documents of real clients have 2,000 tokens, 10 levels
// and 120 fields.
const (
	maxTokens = 20_000
	maxDepth  = 32
	// maxFields bounds those that are resolved, in all lists together: a document that names
	// a fragment twice in itself grows without its text.
	maxFields = 2_000_000
	// maxCalls bounds fields with arguments that are resolved: each may read much.
	maxCalls = 100
	// maxResolved bounds all fields that are computed: a document may ask the same of each
	// element of a list, and that again of each of theirs.
	maxResolved = 50_000
	// maxAnswer bounds the bytes of an answer: a document may name a long text many times.
	maxAnswer = 64 << 20
)

// Request is the body of a POST.
type Request struct {
	Query     string         `json:"query"`
	Operation string         `json:"operationName"`
	Variables map[string]any `json:"variables"`
}

// Object is a value with fields. The functions are asked for what a document names only.
type Object map[string]Field

// Field is a value of an object: nil, a bool, a number, a string, [Raw], an [Object], a list
// ([]Object, []string, []any of these), or a [Resolver] that computes one of them.
type Field any

// Resolver computes a field from its arguments.
type Resolver func(ctx context.Context, args Args) (Field, error)

// Raw is JSON that goes into the answer as it is.
type Raw = json.RawMessage

// Args are the arguments of a field, with variables put in.
type Args map[string]any

// Problem is an error of the answer. It has no path: W&B's clients would put it in front of
// the message.
type Problem struct {
	Message    string         `json:"message"`
	Extensions map[string]any `json:"extensions,omitempty"`
}

// Operation is a document that was read and is within the limits.
type Operation struct {
	set       ast.SelectionSet
	fragments map[string]*ast.FragmentDefinition
	variables map[string]any
	// Mutation tells an operation that changes something.
	Mutation bool
	Name     string
}

// Parse reads a request. Its errors are [model.Error] with CodeInvalid.
func Parse(r *Request) (*Operation, error) {
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: r.Query}, maxTokens)
	if err != nil {
		return nil, model.Errorf(model.CodeInvalid, "the GraphQL document cannot be read: %s", model.CutBytes(err.Error(), 300))
	}
	def := doc.Operations.ForName(r.Operation)
	if def == nil {
		return nil, model.Errorf(model.CodeInvalid, "the GraphQL document has no operation %q", model.Clip(r.Operation))
	}
	if def.Operation == ast.Subscription {
		return nil, model.Errorf(model.CodeInvalid, "subscriptions are not supported")
	}
	o := &Operation{set: def.SelectionSet, fragments: make(map[string]*ast.FragmentDefinition, len(doc.Fragments)), variables: map[string]any{}, Mutation: def.Operation == ast.Mutation, Name: def.Name}
	for _, f := range doc.Fragments {
		o.fragments[f.Name] = f
	}
	for _, v := range def.VariableDefinitions {
		if v.DefaultValue != nil {
			value, err := o.value(v.DefaultValue, 0)
			if err != nil {
				return nil, err
			}
			o.variables[v.Variable] = value
		}
		if value, ok := r.Variables[v.Variable]; ok {
			o.variables[v.Variable] = value
		}
	}
	return o, nil
}

// Run resolves the operation over root. Failed are the errors behind the problems.
func (o *Operation) Run(ctx context.Context, root Object) (data []byte, problems []Problem, failed []error) {
	x := &execution{Operation: o, ctx: ctx}
	data = x.merged(nil, root, []ast.SelectionSet{o.set}, 1)
	return data, x.problems, x.failed
}

// execution is one run.
type execution struct {
	*Operation
	ctx      context.Context
	problems []Problem
	failed   []error
	fields   int
	calls    int
	resolved int
	inside   []string // the fragments that are being collected
	over     bool     // a limit was passed: nothing more is resolved
}

// selected is a field of a set as it is asked for.
type selected struct {
	key   string
	field *ast.Field
	sets  []ast.SelectionSet // of all fields of this key
}

// collect gathers the fields of a set, fragments included, in order; those of one key are
// one field.
func (x *execution) collect(set ast.SelectionSet, into []selected, at map[string]int, depth int) ([]selected, error) {
	if depth > maxDepth {
		return nil, errDepth()
	}
	for _, s := range set {
		if x.fields++; x.fields > maxFields {
			return nil, errFields()
		}
		var err error
		switch s := s.(type) {
		case *ast.Field:
			if !x.included(s.Directives) {
				continue
			}
			key := s.Alias
			if key == "" {
				key = s.Name
			}
			if i, ok := at[key]; ok {
				into[i].sets = append(into[i].sets, s.SelectionSet)
				continue
			}
			at[key] = len(into)
			into = append(into, selected{key, s, []ast.SelectionSet{s.SelectionSet}})
		case *ast.InlineFragment:
			if x.included(s.Directives) {
				into, err = x.collect(s.SelectionSet, into, at, depth+1)
			}
		case *ast.FragmentSpread:
			into, err = x.spread(s, into, at, depth)
		}
		if err != nil {
			return nil, err
		}
	}
	return into, nil
}

func (x *execution) spread(s *ast.FragmentSpread, into []selected, at map[string]int, depth int) ([]selected, error) {
	if !x.included(s.Directives) {
		return into, nil
	}
	def := x.fragments[s.Name]
	if def == nil {
		return nil, model.Errorf(model.CodeInvalid, "the GraphQL document has no fragment %q", model.Clip(s.Name))
	}
	if slices.Contains(x.inside, s.Name) {
		return nil, model.Errorf(model.CodeInvalid, "the fragment %q names itself", model.Clip(s.Name))
	}
	x.inside = append(x.inside, s.Name)
	into, err := x.collect(def.SelectionSet, into, at, depth+1)
	x.inside = x.inside[:len(x.inside)-1]
	return into, err
}

func (x *execution) included(directives ast.DirectiveList) bool {
	for _, d := range directives {
		if d.Name != "skip" && d.Name != "include" {
			continue
		}
		on := false
		if arg := d.Arguments.ForName("if"); arg != nil {
			v, err := x.value(arg.Value, 0)
			on, _ = v.(bool)
			on = on && err == nil
		}
		if on == (d.Name == "skip") {
			return false
		}
	}
	return true
}

// merged writes the fields of an object that any of the sets names.
func (x *execution) merged(dst []byte, o Object, sets []ast.SelectionSet, depth int) []byte {
	if x.over {
		return append(dst, "null"...)
	}
	var fields []selected
	at := map[string]int{}
	for _, set := range sets {
		var err error
		if fields, err = x.collect(set, fields, at, depth); err != nil {
			x.fail(err)
			x.over = true
			return append(dst, "null"...)
		}
	}
	dst = append(dst, '{')
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = model.AppendJSONText(dst, f.key)
		dst = append(dst, ':')
		dst = x.field(dst, o, &f, depth)
	}
	return append(dst, '}')
}

func (x *execution) field(dst []byte, o Object, f *selected, depth int) []byte {
	value, ok := o[f.field.Name]
	if x.over || !ok {
		if f.field.Name == "__typename" {
			return append(dst, `"Object"`...)
		}
		if depth == 1 && !x.over { // a root field is what is asked for; it is not left out silently
			x.fail(model.Errorf(model.CodeInvalid, "the operation %s is not supported by this server", model.Clip(f.field.Name)))
		}
		return append(dst, "null"...)
	}
	if err := x.ends(dst); err != nil {
		x.over = true
		x.fail(err)
		return append(dst, "null"...)
	}
	if resolve, is := value.(Resolver); is {
		var err error
		if value, err = x.call(resolve, f.field); err != nil {
			x.fail(err)
			return append(dst, "null"...)
		}
	}
	return x.write(dst, value, f, depth)
}

// ends tells why nothing more is resolved.
func (x *execution) ends(dst []byte) error {
	if len(dst) > maxAnswer {
		return model.Errorf(model.CodeTooLarge, "the answer is longer than %d MiB", maxAnswer>>20).WithHint("Ask for fewer fields, or for a shorter page.")
	}
	return x.ctx.Err()
}

func (x *execution) call(resolve Resolver, f *ast.Field) (Field, error) {
	if x.resolved++; x.resolved > maxResolved {
		x.over = true
		return nil, model.Errorf(model.CodeInvalid, "the GraphQL document asks for more than %d fields that are computed", maxResolved).WithHint("Ask for a shorter page.")
	}
	if len(f.Arguments) > 0 {
		if x.calls++; x.calls > maxCalls {
			return nil, model.Errorf(model.CodeInvalid, "the GraphQL document has more than %d fields with arguments", maxCalls)
		}
	}
	args := make(Args, len(f.Arguments))
	for _, a := range f.Arguments {
		value, err := x.value(a.Value, 0)
		if err != nil {
			return nil, err
		}
		args[a.Name] = value
	}
	return resolve(x.ctx, args)
}

// write appends a value, with the fields that are asked for where it is an object.
func (x *execution) write(dst []byte, value Field, f *selected, depth int) []byte {
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...)
	case Raw:
		if v == nil {
			return append(dst, "null"...)
		}
		return append(dst, v...)
	case string:
		return model.AppendJSONText(dst, v)
	case Object:
		if v == nil {
			return append(dst, "null"...)
		}
		return x.merged(dst, v, f.sets, depth+1)
	case []Object:
		return list(dst, v, func(dst []byte, o Object) []byte { return x.write(dst, o, f, depth) })
	case []any:
		return list(dst, v, func(dst []byte, o any) []byte { return x.write(dst, o, f, depth) })
	}
	text, err := json.Marshal(value)
	if err != nil {
		x.fail(fmt.Errorf("write a field: %w", err))
		return append(dst, "null"...)
	}
	return append(dst, text...)
}

func list[T any](dst []byte, all []T, one func(dst []byte, v T) []byte) []byte {
	dst = append(dst, '[')
	for i, v := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, v)
	}
	return append(dst, ']')
}

// maxProblems bounds the errors of an answer.
const maxProblems = 20

// fail notes an error. What is no [model.Error] is the server's fault, and stays in its log.
func (x *execution) fail(err error) {
	if len(x.problems) >= maxProblems {
		return
	}
	x.problems, x.failed = append(x.problems, ProblemOf(err)), append(x.failed, err)
}

// ProblemOf is an error as a client sees it.
func ProblemOf(err error) Problem {
	p := Problem{Message: "the server failed on this request; its log says why", Extensions: map[string]any{"code": model.CodeOf(err)}}
	if e := model.Shown(err); e != nil {
		p.Message = e.Message
		if e.Hint != "" {
			p.Message += ": " + e.Hint
		}
	} else if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		p.Message = "the request took too long"
	}
	return p
}

func errDepth() error {
	return model.Errorf(model.CodeInvalid, "the GraphQL document is nested deeper than %d", maxDepth)
}

func errFields() error {
	return model.Errorf(model.CodeInvalid, "the GraphQL document asks for more than %d fields", maxFields)
}
