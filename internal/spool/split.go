package spool

// rowsOf is the block of the rows from…to-1.
func (b *Block) rowsOf(from, to int) *Block {
	out := &Block{Kind: b.Kind, Narrow: b.Narrow, Rows: to - from, Series: b.Series, Time: b.columnRows(b.Time, from, to)}
	for _, a := range b.Axes {
		out.Axes = append(out.Axes, BlockAxis{Axis: a.Axis, Column: b.columnRows(a.Column, from, to)})
	}
	for i := range b.Series {
		out.Values = append(out.Values, b.Values[i*b.Rows+from:i*b.Rows+to]...)
	}
	return out
}

func (b *Block) columnRows(c Column, from, to int) Column {
	out := Column{Mode: c.Mode}
	series := 1
	if c.Mode&ModePerSeries != 0 {
		series = len(b.Series)
	}
	for i := range series {
		switch c.Mode & modeShape {
		case ModeConstant:
			out.Values = append(out.Values, c.Values[i])
		case ModeLinear:
			out.Values = append(out.Values, c.Values[i]+int64(from))
		default:
			out.Values = append(out.Values, c.Values[i*b.Rows+from:i*b.Rows+to]...)
		}
	}
	return out
}

// seriesOf is the block of the series from…to-1.
func (b *Block) seriesOf(from, to int) *Block {
	out := &Block{Kind: b.Kind, Narrow: b.Narrow, Rows: b.Rows, Series: b.Series[from:to], Time: b.columnSeries(b.Time, from, to)}
	for _, a := range b.Axes {
		out.Axes = append(out.Axes, BlockAxis{Axis: a.Axis, Column: b.columnSeries(a.Column, from, to)})
	}
	out.Values = b.Values[from*b.Rows : to*b.Rows]
	return out
}

func (b *Block) columnSeries(c Column, from, to int) Column {
	if c.Mode&ModePerSeries == 0 {
		return c
	}
	n := width(c.Mode, b.Rows)
	return Column{Mode: c.Mode, Values: c.Values[from*n : to*n]}
}
