package record

import (
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// Batch is a batch as it is stored: everything decided, so that replay needs
// no rule and gives the same state.
type Batch struct {
	Run         model.RunID
	Writer      model.WriterID
	Attempt     uint32
	WriterPlace uint32 // place of the writer in the run
	SourcePlace uint32
	First       uint64 // 1 + the mark before; 0 for a foreign writer and when not known
	Last        uint64 // new mark, 0 for a foreign writer
	NextOrd     int64
	Refused     uint64
	Skipped     []model.Skipped
	Series      []Series
	Starts      []Start
	Groups      []Group
	Updates     []model.Update
	Doc         []byte // the updates as they are stored
}

// Points counts the points of all groups.
func (r *Batch) Points() (n uint64) {
	for i := range r.Groups {
		n += r.Groups[i].Points()
	}
	return n
}

// documents is the bytes of texts and documents: a buffer that grew to them step by step
// would take several times as much.
func (r *Batch) documents() (n int) {
	for i := range r.Groups {
		for j := range r.Groups[i].Columns {
			for _, doc := range r.Groups[i].Columns[j].Docs {
				n += len(doc) + binary.MaxVarintLen32
			}
		}
	}
	return n
}

// Batch writes a batch; it fails when an update cannot be stored.
func (e *Encoder) Batch(r *Batch) error {
	e.Buf = slices.Grow(e.Buf, r.documents())
	e.U8(byte(TypeBatch))
	e.Uint(r.First)
	e.ID(r.Run)
	e.ID(r.Writer)
	e.Uint(uint64(r.Attempt))
	e.Uint(uint64(r.WriterPlace))
	e.Uint(uint64(r.SourcePlace))
	e.Uint(r.Last)
	e.Int(r.NextOrd)
	e.Uint(r.Refused)
	e.Skipped(r.Skipped)
	e.Uint(uint64(len(r.Series)))
	for _, s := range r.Series {
		e.Uint(uint64(s.ID))
		e.U8(byte(s.Kind))
		e.Text(s.Text)
	}
	e.Uint(uint64(len(r.Starts)))
	for _, s := range r.Starts {
		e.Start(s)
	}
	e.Uint(uint64(len(r.Groups)))
	for i := range r.Groups {
		e.group(&r.Groups[i])
	}
	if len(r.Updates) > 0 {
		doc, err := json.Marshal(r.Updates)
		if err != nil {
			return model.Errorf(model.CodeInvalid, "an update cannot be stored: %v", err)
		}
		r.Doc = doc
	}
	e.Bytes(r.Doc)
	return nil
}

// decodeBatch leaves the updates as the bytes they are.
func decodeBatch(d *Decoder) (*Batch, error) {
	r := d.batchHead()
	r.Series = d.SeriesDefs()
	for range d.Count(4) {
		r.Starts = append(r.Starts, d.Start())
	}
	for range d.Count(4) {
		r.Groups = append(r.Groups, d.group())
	}
	r.Doc = append([]byte{}, d.Bytes()...)
	return r, d.Err
}

// DecodeBatch reads a batch from the payload of a log record.
func DecodeBatch(payload []byte) (*Batch, error) {
	d := &Decoder{Rest: payload}
	first := uint64(0)
	if Type(d.U8()) == TypeBatch {
		first = d.Uint()
	}
	rec, err := decodeBatch(d)
	if err == nil {
		rec.First = first
	}
	return rec, err
}

func (d *Decoder) batchHead() *Batch {
	return &Batch{Run: d.ID(), Writer: d.ID(), Attempt: uint32(d.Uint()), WriterPlace: uint32(d.Uint()), SourcePlace: uint32(d.Uint()), Last: d.Uint(), NextOrd: d.Int(), Refused: d.Uint(), Skipped: d.Skipped()}
}

// Outline is how large the body of a batch is.
type Outline struct {
	Made   uint32 // places of series that are taken
	Fresh  int    // series that it defines
	Groups int
	Points uint64
}

// SkimBatch reads a batch without its body.
func SkimBatch(d *Decoder) (r *Batch, o Outline, err error) {
	r = d.batchHead()
	o.Fresh = d.Count(3)
	for range o.Fresh {
		o.Made = max(o.Made, uint32(d.Uint())+1)
		d.U8()
		d.Bytes()
	}
	for range d.Count(4) {
		d.Start()
	}
	o.Groups = d.Count(4)
	for range o.Groups {
		o.Points += d.skimGroup()
	}
	r.Doc = append([]byte{}, d.Bytes()...)
	return r, o, d.Err
}
