package row

// The series that a row is kept in, beside one for each of its keys.
const (
	// IndexMetric has exactly one float64 point a row: its _runtime, or NaN.
	IndexMetric = "_runtime"
	// OtherMetric has, as one object, what of a row cannot be a metric by itself.
	OtherMetric = "_other"
	// ConsoleMetric has the lines of output.log, at their numbers.
	ConsoleMetric = "console"
	// SystemPrefix stands before the metrics of system events, in place of SystemKeys.
	SystemPrefix = "system/"
	// SystemKeys stands before the keys of system events on the wire.
	SystemKeys = "system."
)

// A series whose values are not numbers says by a label how they are to be read, so that a
// key whose values change their type has one series for each type.
const (
	// LabelProcess tells the consoles of processes apart that log into one run together.
	LabelProcess  = "process"
	LabelType     = "type"
	TypeText      = "text"      // a string, kept as it is
	TypeJSON      = "json"      // any other value, as its JSON text
	TypeHistogram = "histogram" // a histogram, kept as model's document
)

// SystemOwn stands before the keys of system events that W&B adds itself, such as _runtime:
// they keep their names. All others begin with SystemKeys on the wire.
const SystemOwn = SystemPrefix + "_"

// Members of a row that the wire adds to what the program logged. None but IndexMetric is
// a series of its own.
const (
	StepKey      = "_step"
	TimestampKey = "_timestamp"
	RuntimeKey   = IndexMetric
)
