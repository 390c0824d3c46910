package importer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
)

// findWandb finds run-ID.wandb files, of offline runs and of others: the latter
// hold everything too. The run's id is its key and name.
func findWandb(_ context.Context, path string, opts Options) ([]Found, error) {
	type place struct{ project, id string }
	files := map[place][]string{}
	err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if id, ok := strings.CutSuffix(entry.Name(), ".wandb"); ok && isFile(name, entry) {
			at := place{wandbProject(name), strings.TrimPrefix(id, "run-")}
			files[at] = append(files[at], name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for .wandb files: %w", err)
	}
	var found []Found
	for at, names := range files {
		slices.Sort(names) // the folders begin with their time: a resumed run's lives in order
		found = append(found, Found{Key: at.id, Name: at.id, ByKey: true, Project: at.project, Bytes: sizeOf(names), Read: func(ctx context.Context) (*Run, error) {
			return readWandb(ctx, names, opts)
		}})
	}
	slices.SortFunc(found, func(a, b Found) int { return strings.Compare(a.Key, b.Key) })
	return found, nil
}

// wandbHead is read of a file to learn its project, which stands in one of the first records.
const wandbHead = 4 << 20

// wandbProject is the project that a file says it belongs to, "" when it says none.
func wandbProject(name string) (project string) {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, wandbHead))
	_ = wandbLog(head, func(record []byte) {
		for f, err := range fields(record) {
			if err == nil && f.num == 17 && project == "" {
				for inner, err := range fields(f.b) {
					if err == nil && inner.num == 3 {
						project = string(inner.b)
					}
				}
			}
		}
	}, func(damaged) {}) // the import itself tells
	return project
}

// wandbRun gathers the records of a run.
type wandbRun struct {
	*builder
	config, summary map[string]any
	stats           int64 // steps of the system metrics
	exited          bool
	records         int
}

func readWandb(ctx context.Context, names []string, opts Options) (*Run, error) {
	w := &wandbRun{builder: newBuilder(), config: map[string]any{}, summary: map[string]any{}}
	for _, name := range names {
		data, err := opts.readAll(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		base := filepath.Base(name)
		w.exited = false
		err = wandbLog(data, func(record []byte) {
			if err := w.record(record); err != nil {
				w.damage(base, -1, "a record is none of W&B's: %v", err)
				return
			}
			w.records++
		}, func(d damaged) { w.damage(base, d.offset, "%s", d.text) })
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if !w.exited {
			w.run.Failed = true
		}
	}
	if w.records == 0 {
		return nil, model.Errorf(model.CodeInvalid, "%s: it holds no record of W&B's", names[0])
	}
	delete(w.config, "_wandb")
	w.tree("config", w.config, 0)
	for name, value := range w.summary {
		if !strings.HasPrefix(name, "_") {
			w.tree("summary/"+strings.Trim(name, "/"), value, 1)
		}
	}
	run := w.done()
	for _, s := range run.Series {
		for _, t := range s.TimeNs {
			run.span(t)
		}
	}
	return run, nil
}

const (
	wandbBlock  = 32 << 10
	wandbHeader = 7 // of the file, and of every piece of a record
)

// wandbLog gives the records of a LevelDB log: blocks of 32 KiB, in each pieces
// of u32 CRC (IEEE, of type and data), u16 length, u8 type: 1 whole, 2 first,
// 3 middle, 4 last. The first block begins with ":W&B", u16 0xBEE1, u8 0.
func wandbLog(data []byte, record func([]byte), damage func(damaged)) error {
	if len(data) < wandbHeader || string(data[:4]) != ":W&B" || binary.LittleEndian.Uint16(data[4:]) != 0xBEE1 {
		return model.Errorf(model.CodeInvalid, "it does not begin as a file of W&B does").WithHint("give the folder wandb/, one of its runs, or a run-ID.wandb file")
	}
	if data[6] != 0 {
		return model.Errorf(model.CodeInvalid, "it is of version %d of W&B's format; version 0 is known", data[6])
	}
	var whole []byte
	open := false
	for at := wandbHeader; at < len(data); {
		left := wandbBlock - at%wandbBlock
		if left < wandbHeader {
			at += left
			continue
		}
		block := data[at:min(at+left, len(data))]
		kind, piece, problem := wandbPiece(block)
		if problem != "" {
			next := wandbHeader + len(piece)
			if piece == nil || !wandbGoesOn(block[next:]) {
				next = left
				if piece != nil || len(block) == left { // else the file ends here
					problem += "; all to the end of its 32 KiB is left out"
				}
			}
			damage(damaged{int64(at), problem, false})
			open, at = false, at+next
			continue
		}
		if kind == 0 { // zeros up to the end of a block
			at += left
			continue
		}
		if begins := kind == 1 || kind == 2; begins == open {
			damage(damaged{int64(at), "a part of a record is missing", false})
		}
		switch kind {
		case 1:
			record(piece)
			open = false
		case 2:
			whole, open = slices.Clone(piece), true
		default:
			if open {
				whole = append(whole, piece...)
			}
			if kind == 4 && open {
				record(whole)
				open = false
			}
		}
		at += wandbHeader + len(piece)
	}
	if open {
		damage(damaged{int64(len(data)), "the file ends within a record: the program was killed, or still writes", true})
	}
	return nil
}

// wandbPiece reads one piece; problem says why it cannot be. One that only its
// length makes out is given, too.
func wandbPiece(block []byte) (kind byte, piece []byte, problem string) {
	if len(block) < wandbHeader {
		return 0, nil, "the file ends within a record: the program was killed, or still writes"
	}
	crc, length, kind := binary.LittleEndian.Uint32(block), int(binary.LittleEndian.Uint16(block[4:])), block[6]
	switch {
	case crc == 0 && length == 0 && kind == 0:
		return 0, nil, ""
	case wandbHeader+length > len(block):
		return 0, nil, "a record does not end where its length says"
	}
	piece = block[wandbHeader : wandbHeader+length]
	switch {
	case crc32.ChecksumIEEE(block[6:wandbHeader+length]) != crc:
		problem = "the checksum of a record is wrong"
	case kind < 1 || kind > 4:
		problem = "the type of a record is not known"
	}
	return kind, piece, problem
}

// wandbGoesOn reports whether a whole piece lies here: the length before it is right
// then, though its piece is damaged.
func wandbGoesOn(block []byte) bool {
	kind, _, problem := wandbPiece(block)
	return problem == "" && kind != 0
}

// record reads wandb_internal.Record: history 2, summary 3, config 5, stats 7,
// run 17, exit 18. The rest is W&B's own, console output and files.
func (w *wandbRun) record(msg []byte) error {
	for f, err := range fields(msg) {
		if err != nil {
			return err
		}
		switch f.num {
		case 2:
			err = w.history(f.b)
		case 3:
			err = update(w.summary, f.b)
		case 5:
			err = update(w.config, f.b)
		case 7:
			err = w.system(f.b)
		case 17:
			err = w.header(f.b)
		case 18:
			err = w.exit(f.b)
		case 4, 13, 27:
			w.skip("console lines")
		case 6, 8:
			w.skip("files and artifacts")
		case 9:
			w.skip("folders of TensorBoard, which have an import of their own")
		case 10:
			w.skip("alerts")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// history reads HistoryRecord: item 1, step 2 with num 1.
func (w *wandbRun) history(msg []byte) error {
	row, step := map[string]any{}, int64(0)
	for f, err := range fields(msg) {
		switch {
		case err != nil:
			return err
		case f.num == 1:
			if err := set(row, f.b); err != nil {
				return err
			}
		case f.num == 2:
			for n, err := range fields(f.b) {
				if err == nil && n.num == 1 {
					step = int64(n.u)
				}
			}
		}
	}
	when := seconds(toFloat(row["_timestamp"]))
	for name, value := range row {
		if !strings.HasPrefix(name, "_") {
			w.cell(name, step, when, value, 0)
		}
	}
	return nil
}

// cell logs one value of a row; nested mappings are joined by dots, as W&B shows
// them.
func (w *wandbRun) cell(name string, step, timeNs int64, value any, depth int) {
	switch v := value.(type) {
	case nil:
	case string:
		w.text(name, step, timeNs, v)
	case map[string]any:
		kind, typed := v["_type"].(string)
		switch {
		case kind == "histogram":
			w.histogram(name, step, timeNs, wandbHistogram(v))
		case typed:
			w.skipOf(kind, name)
		case depth == maxDepth:
			w.skipOf("values nested deeper than "+strconv.Itoa(maxDepth), name)
		default:
			for inner, one := range v {
				w.cell(name+"."+inner, step, timeNs, one, depth+1)
			}
		}
	case []any:
		w.skipOf("lists", name)
	case json.Number:
		w.number(name, step, timeNs, v.String(), toFloat(v))
	default:
		w.float(name, step, timeNs, toFloat(v))
	}
}

func toFloat(value any) float64 {
	switch v := value.(type) {
	case float64:
		return v
	case bool:
		if v {
			return 1
		}
		return 0
	case json.Number:
		f, _ := v.Float64() // ±Inf when it is out of range
		return f
	}
	return math.NaN()
}

// wandbHistogram reads {"values": counts, "bins": edges}.
func wandbHistogram(v map[string]any) *model.Histogram {
	counts, _ := v["values"].([]any)
	edges, _ := v["bins"].([]any)
	if len(edges) != len(counts)+1 {
		return nil
	}
	bins := make([]bin, len(counts))
	for i := range counts {
		bins[i] = bin{toFloat(edges[i]), toFloat(edges[i+1]), toFloat(counts[i])}
	}
	return histogramOf(bins, nil)
}

// system reads StatsRecord: timestamp 2, item 3. Its step is a running number.
func (w *wandbRun) system(msg []byte) error {
	row, when := map[string]any{}, int64(0)
	for f, err := range fields(msg) {
		switch {
		case err != nil:
			return err
		case f.num == 2:
			when = timestamp(f.b)
		case f.num == 3:
			if err := set(row, f.b); err != nil {
				return err
			}
		}
	}
	for name, value := range row {
		w.cell("system/"+name, w.stats, when, value, 0)
	}
	w.stats++
	return nil
}

// timestamp reads google.protobuf.Timestamp.
func timestamp(msg []byte) (ns int64) {
	for f, err := range fields(msg) {
		switch {
		case err != nil:
			return 0
		case f.num == 1 && f.u < maxStep/1_000_000_000:
			ns += int64(f.u) * 1e9
		case f.num == 2 && f.u < 1e9:
			ns += int64(f.u)
		}
	}
	return ns
}

// header reads RunRecord: entity 2, project 3, config 4, run_group 6, job_type 7,
// display_name 8, notes 9, tags 10, host 13, start_time 17, git 21.
func (w *wandbRun) header(msg []byte) error {
	texts := map[int32]string{2: "wandb/entity", 3: "wandb/project", 6: "wandb/group", 7: "wandb/job_type", 13: "host"}
	for f, err := range fields(msg) {
		if err != nil {
			return err
		}
		switch path := texts[int32(f.num)]; {
		case path != "":
			if len(f.b) > 0 {
				w.attribute(path, model.StringValue(string(f.b)))
			}
		case f.num == 4:
			err = update(w.config, f.b)
		case f.num == 8:
			w.run.DisplayName = CleanRunName(string(f.b))
		case f.num == 9:
			w.run.Description = model.CutBytes(strings.ToValidUTF8(string(f.b), "\ufffd"), maxText)
		case f.num == 10:
			w.tag(string(f.b))
		case f.num == 17:
			w.run.span(timestamp(f.b))
		case f.num == 21:
			err = w.git(f.b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// git reads GitRepoRecord: remote_url 1, commit 2. A password in the address
// stays behind.
func (w *wandbRun) git(msg []byte) error {
	for f, err := range fields(msg) {
		switch {
		case err != nil:
			return err
		case f.num == 1:
			w.attribute("git/remote", model.StringValue(regexp.MustCompile(`//[^/@]*@`).ReplaceAllString(string(f.b), "//")))
		case f.num == 2:
			w.attribute("git/commit", model.StringValue(string(f.b)))
		}
	}
	return nil
}

// exit reads RunExitRecord: exit_code 1.
func (w *wandbRun) exit(msg []byte) error {
	w.exited, w.run.Failed = true, false
	for f, err := range fields(msg) {
		if err != nil {
			return err
		}
		if f.num == 1 {
			w.run.Failed = f.u != 0
		}
	}
	return nil
}

// update applies ConfigRecord or SummaryRecord: update 1, remove 2.
func update(into map[string]any, msg []byte) error {
	for f, err := range fields(msg) {
		if err != nil {
			return err
		}
		switch f.num {
		case 1:
			err = set(into, f.b)
		case 2:
			err = remove(into, f.b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// set applies an item: key 1 or nested_key 2, value_json 16, or since 0.31 one of
// none 3, boolean 4, integer 5, number 6, text 7, json 8.
func set(into map[string]any, msg []byte) error {
	keys, value, err := item(msg)
	if err != nil || len(keys) == 0 {
		return err
	}
	for _, key := range keys[:len(keys)-1] {
		inner, ok := into[key].(map[string]any)
		if !ok {
			inner = map[string]any{}
			into[key] = inner
		}
		into = inner
	}
	into[keys[len(keys)-1]] = value
	return nil
}

func remove(from map[string]any, msg []byte) error {
	keys, _, err := item(msg)
	if err != nil || len(keys) == 0 {
		return err
	}
	for _, key := range keys[:len(keys)-1] {
		inner, ok := from[key].(map[string]any)
		if !ok {
			return nil
		}
		from = inner
	}
	delete(from, keys[len(keys)-1])
	return nil
}

func item(msg []byte) (keys []string, value any, err error) {
	for f, err := range fields(msg) {
		if err != nil {
			return nil, nil, err
		}
		switch f.num {
		case 1:
			if len(f.b) > 0 {
				keys = []string{string(f.b)}
			}
		case 2:
			keys = append(keys, string(f.b))
		case 4:
			value = f.u != 0
		case 5:
			value = json.Number(strconv.FormatInt(protowire.DecodeZigZag(f.u), 10))
		case 6:
			value = f.double()
		case 7:
			value = string(f.b)
		case 8, 16:
			if value, err = loose.Decode(f.b, maxNesting); err != nil {
				return nil, nil, fmt.Errorf("read a value: %w", err)
			}
		}
	}
	if len(keys) > maxDepth {
		keys = append(keys[:maxDepth-1], strings.Join(keys[maxDepth-1:], "."))
	}
	return keys, value, nil
}
