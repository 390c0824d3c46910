package main

import (
	"strconv"
)

// measurement of the line protocol; VictoriaMetrics joins it and the field's
// name by a sub-score, remote write sends the joined name.
const measurement = "ml"

// lineBody is a block in InfluxDB's line protocol: a line a log call, as an
// Influx client writes a point of many fields.
func lineBody(dst []byte, b *block) []byte {
	for row, ns := range b.timeNs {
		dst = append(dst, measurement+",host=node-0,run="...)
		dst = append(dst, b.run...)
		for i, name := range b.names {
			dst = append(dst, " ,"[min(i, 1)])
			dst = append(dst, name...)
			dst = append(dst, '=')
			dst = strconv.AppendFloat(dst, b.columns[i][row], 'g', -1, 64)
		}
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, ns, 10)
		dst = append(dst, '\n')
	}
	return dst
}

// singleLines is a block with one value a line, and a time for each.
func singleLines(dst []byte, b *block, timesNs []int64) []byte {
	for row := range b.timeNs {
		for i, name := range b.names {
			dst = append(dst, measurement+",host=node-0,run="...)
			dst = append(dst, b.run...)
			dst = append(dst, ' ')
			dst = append(dst, name...)
			dst = append(dst, '=')
			dst = strconv.AppendFloat(dst, b.columns[i][row], 'g', -1, 64)
			dst = append(dst, ' ')
			dst = strconv.AppendInt(dst, timesNs[row*len(b.names)+i], 10)
			dst = append(dst, '\n')
		}
	}
	return dst
}
