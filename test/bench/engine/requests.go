package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// lineWriter appends one request of a node in line protocol.
type lineWriter func(dst []byte, k *small, node, request int, random *rand.Rand) []byte

// requestNs is when a request of a node was logged.
func requestNs(request int) int64 { return firstMs*1_000_000 + int64(request)*1_000_000_000 }

// block is the request as a scrape of that many series.
func (k small) block(node, request int, random *rand.Rand) *block {
	b := &block{run: fmt.Sprint("node-", node), timeNs: []int64{requestNs(request)}}
	for i := range k.fields {
		b.names = append(b.names, "metric_"+strconv.Itoa(i))
		b.columns = append(b.columns, []float64{2 + random.NormFloat64()})
	}
	return b
}

// taggedLines are the request's lines as influxdb-client writes them: tags by name, a time in
// ns. Where there are many lines of one field, each has a metric of its own.
func taggedLines(dst []byte, k *small, node, request int, random *rand.Rand) []byte {
	for line := range k.lines {
		dst = append(dst, "Mtraining_step_v2,config_device=cuda:0,config_netuid=3,group=miner,job_type=mining,prefix=M,role=miner,runtime_id=5f1c0b9a2e7d4638,uid="...)
		dst = strconv.AppendInt(dst, int64(node), 10)
		dst = append(dst, ",version=2.1.3"...)
		first := 0
		if k.fields == 1 {
			first = line
		}
		dst = appendFields(dst, first, k.fields, random)
		dst = appendTime(dst, requestNs(request)+int64(line)*1_000_000)
	}
	return dst
}

// runLines are all that a run logs: it ends with the request.
func runLines(dst []byte, k *small, node, request int, random *rand.Rand) []byte {
	for line := range k.lines {
		dst = append(dst, measurement+",host=node-0,run=run-"...)
		dst = strconv.AppendInt(dst, int64(request*k.nodes+node), 10)
		dst = appendFields(dst, 0, k.fields, random)
		dst = appendTime(dst, requestNs(request)+int64(line)*1_000_000_000)
	}
	return dst
}

// wideLines are a log call of more series than InfluxDB takes in a line.
func wideLines(dst []byte, k *small, _, request int, random *rand.Rand) []byte {
	for line := range k.lines {
		dst = append(dst, measurement+",host=node-0,run=wide"...)
		dst = appendFields(dst, line*k.fields, k.fields, random)
		dst = appendTime(dst, requestNs(request))
	}
	return dst
}

// longSeries are the next points of one series.
func longSeries(dst []byte, k *small, _, request int, random *rand.Rand) []byte {
	for line := range k.lines {
		dst = append(dst, measurement+",host=node-0,run=long"...)
		dst = appendFields(dst, 0, k.fields, random)
		dst = appendTime(dst, firstMs*1_000_000+(int64(request)*int64(k.lines)+int64(line))*1_000_000_000+random.Int64N(2*jitterMs)*1_000_000)
	}
	return dst
}

func appendFields(dst []byte, first, count int, random *rand.Rand) []byte {
	for field := range count {
		dst = append(dst, " ,"[min(field, 1)])
		dst = append(dst, "metric_"...)
		dst = strconv.AppendInt(dst, int64(first+field), 10)
		dst = append(dst, '=')
		dst = strconv.AppendFloat(dst, 2+random.NormFloat64(), 'g', -1, 64)
	}
	return dst
}

func appendTime(dst []byte, ns int64) []byte {
	return append(strconv.AppendInt(append(dst, ' '), ns, 10), '\n')
}
