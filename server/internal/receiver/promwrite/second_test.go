package promwrite

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// schema is the messages of both versions (prometheus.io/docs/specs/prw), for
// Google's decoder: a line a message, its fields as NUMBER:NAME:TYPE with * for
// repeated.
var schema = []string{
	"WriteRequest 1:timeseries:*TimeSeries 3:metadata:*Metadata",
	"TimeSeries 1:labels:*Label 2:samples:*Sample 3:exemplars:*Exemplar 4:histograms:*Histogram",
	"Label 1:name:string 2:value:string",
	"Sample 1:value:double 2:timestamp:int64",
	"Exemplar 1:labels:*Label 2:value:double 3:timestamp:int64",
	"Metadata 1:type:int32 2:metric_family_name:string 4:help:string 5:unit:string",
	"Span 1:offset:sint32 2:length:uint32",
	"Histogram 1:count_int:uint64 2:count_float:double 3:sum:double 4:schema:sint32 5:zero_threshold:double 6:zero_count_int:uint64 7:zero_count_float:double " +
		"8:negative_spans:*Span 9:negative_deltas:*sint64 10:negative_counts:*double 11:positive_spans:*Span 12:positive_deltas:*sint64 13:positive_counts:*double " +
		"14:reset_hint:int32 15:timestamp:int64 16:custom_values:*double",
	"Request 4:symbols:*bytes 5:timeseries:*TimeSeries2",
	"TimeSeries2 1:labels_refs:*uint32 2:samples:*Sample 3:histograms:*Histogram 4:exemplars:*Exemplar2 5:metadata:Metadata2",
	"Exemplar2 1:labels_refs:*uint32 2:value:double 3:timestamp:int64",
	"Metadata2 1:type:int32 3:help_ref:uint32 4:unit_ref:uint32",
}

func scalar(name string) descriptorpb.FieldDescriptorProto_Type {
	return descriptorpb.FieldDescriptorProto_Type(descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(name)])
}

// descriptors compiles the schema. Strings are bytes: a sender's labels are UTF-8,
// which ingest checks.
func descriptors() protoreflect.MessageDescriptors {
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("remote.proto"), Package: proto.String("p"), Syntax: proto.String("proto3")}
	for _, line := range schema {
		words := strings.Fields(line)
		m := &descriptorpb.DescriptorProto{Name: &words[0]}
		for _, word := range words[1:] {
			var number int32
			var name, kind string
			parts := strings.Split(word, ":")
			fmt.Sscan(parts[0], &number)
			name, kind = parts[1], parts[2]
			f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
			if kind[0] == '*' {
				f.Label, kind = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(), kind[1:]
			}
			if kind == "string" {
				kind = "bytes"
			}
			if kind[0] >= 'A' && kind[0] <= 'Z' {
				f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(".p."+kind)
			} else {
				f.Type = scalar(kind).Enum()
			}
			m.Field = append(m.Field, f)
		}
		file.MessageType = append(file.MessageType, m)
	}
	compiled, err := protodesc.NewFile(file, nil)
	if err != nil {
		panic(err)
	}
	return compiled.Messages()
}

// object is a message with fields by name.
type object struct{ protoreflect.Message }

func (o object) value(name string) protoreflect.Value {
	return o.Get(o.Descriptor().Fields().ByName(protoreflect.Name(name)))
}

func (o object) list(name string) (out []object) {
	l := o.value(name).List()
	for i := range l.Len() {
		out = append(out, object{l.Get(i).Message()})
	}
	return out
}

// read is a request as Google's decoder has it.
func read(messages protoreflect.MessageDescriptors, name string, body []byte) (object, error) {
	m := dynamicpb.NewMessage(messages.ByName(protoreflect.Name(name)))
	err := proto.Unmarshal(body, m)
	return object{m}, err
}

// known is a sample as the second reader finds it.
type known struct {
	Run, Series string
	TimeNs      int64
	Bits        uint64
}

// second lists the samples of a request; ok is false when it must be refused.
func second(messages protoreflect.MessageDescriptors, version int, body []byte) (out []known, histograms, exemplars, metadata int, ok bool) {
	name := map[int]string{1: "WriteRequest", 2: "Request"}[version]
	o, err := read(messages, name, body)
	if err != nil {
		return nil, 0, 0, 0, false
	}
	if version == 1 {
		metadata = len(o.list("metadata"))
	}
	for _, series := range o.list("timeseries") {
		labels, good := secondLabels(o, series, version)
		if !good {
			return nil, 0, 0, 0, false
		}
		run, key := secondSeries(labels)
		for _, s := range series.list("samples") {
			ms := s.value("timestamp").Int()
			if ms > math.MaxInt64/1_000_000 || ms < -math.MaxInt64/1_000_000 {
				return nil, 0, 0, 0, false
			}
			out = append(out, known{run, key, ms * 1_000_000, math.Float64bits(s.value("value").Float())})
		}
		histograms += len(series.list("histograms"))
		exemplars += len(series.list("exemplars"))
		if f := series.Descriptor().Fields().ByName("metadata"); f != nil && series.Has(f) {
			if b, _ := proto.Marshal(series.Get(f).Message().Interface()); len(b) > 0 {
				metadata++
			}
		}
	}
	return out, histograms, exemplars, metadata, true
}

func secondLabels(o, series object, version int) (map[string]string, bool) {
	labels := map[string]string{}
	if version == 1 {
		for _, l := range series.list("labels") {
			labels[string(l.value("name").Bytes())] = string(l.value("value").Bytes())
		}
		return labels, true
	}
	symbols, refs := o.value("symbols").List(), series.value("labels_refs").List()
	if refs.Len()%2 != 0 {
		return nil, false
	}
	for i := 0; i < refs.Len(); i += 2 {
		a, b := refs.Get(i).Uint(), refs.Get(i+1).Uint()
		if a >= uint64(symbols.Len()) || b >= uint64(symbols.Len()) {
			return nil, false
		}
		labels[string(symbols.Get(int(a)).Bytes())] = string(symbols.Get(int(b)).Bytes())
	}
	return labels, true
}

func secondSeries(labels map[string]string) (run, key string) {
	for name, value := range labels {
		if value == "" {
			delete(labels, name)
		}
	}
	metric := labels["__name__"]
	delete(labels, "__name__")
	run, named := labels["run"], labels["run"] != ""
	delete(labels, "run")
	if !named {
		parts := slices.DeleteFunc([]string{labels["job"], labels["instance"]}, func(s string) bool { return s == "" })
		if run = strings.Join(parts, "/"); run == "" {
			run = "default"
		}
	}
	var rest []string
	for name, value := range labels {
		rest = append(rest, fmt.Sprintf("%q=%q", name, value))
	}
	slices.Sort(rest)
	return run, fmt.Sprintf("%q%v", metric, rest)
}
